"""What broke a capture: the call or operator to blame, and the rule that owns it. Finds nothing itself."""
