"""The trace: its typed records, a tolerant streaming reader, and the pack that one mails in a bug report."""
