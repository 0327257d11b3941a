"""The page in Debian's chromium: readable in light and dark, usable by keyboard, silent on the console.

Without a browser every test here fails and says so: what was not looked at is not known to work.
"""

from __future__ import annotations

import os
import shutil

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from cudagraph_doctor.findings import Location
from cudagraph_doctor.report import Roots
from cudagraph_doctor.reporters.files import write_file
from cudagraph_doctor.reporters.formats import Format

PLANTED = "<script>document.title='hacked'</script><img src=x onerror=\"document.title='hacked'\">"
LOWEST_CONTRAST = 4.5
"""WCAG 2.2, success criterion 1.4.3, for text of ordinary size."""
CONTRASTS = """
const bright = (c) => c.map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
const colour = (text) => { const n = text.match(/[\\d.]+/g).map(Number); return [n.slice(0, 3), n.length > 3 ? n[3] : 1]; };
const behind = (element) => {
  const layers = [];
  for (let e = element; e; e = e.parentElement) layers.unshift(colour(getComputedStyle(e).backgroundColor));
  return layers.reduce((below, [above, alpha]) => below.map((v, i) => v * (1 - alpha) + above[i] * alpha), [255, 255, 255]);
};
const told = [];
for (const e of document.querySelectorAll("body *")) {
  const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
  if (!own || ["SCRIPT", "STYLE"].includes(e.tagName) || !e.getClientRects().length || e.className === "skip") continue;
  const [a, b] = [bright(colour(getComputedStyle(e).color)[0]), bright(behind(e))].sort((x, y) => y - x);
  told.push([(a + .05) / (b + .05), e.tagName + "." + e.className + ": " + e.textContent.slice(0, 40)]);
}
return told;
"""


@pytest.fixture(scope="module")
def browser():
    binary = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.fail("no chromium with its driver here, so the page was not looked at: apt-get install chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--window-size=1200,1600",
        "--force-color-profile=srgb",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield started
    started.quit()


@pytest.fixture
def page(browser, broken, finding, tmp_path):
    """The page of a report with everything, and with markup planted in a path, a source line and argv."""
    from msgspec import structs
    from test_table_snapshots import step

    from cudagraph_doctor.report import Timeline

    steps = (
        step("begin", 0.5, "none", "active", "torch.cuda.CUDAGraph.capture_begin", 6),
        step("fork", 0.51, "none", "active", "cuStreamWaitEvent", 7),
        step("invalidated", 0.53, "active", "invalidated", "cuMemHostAlloc", 21, thread="loader", code=900),
        step("end", 0.54, "invalidated", "none", "torch.cuda.CUDAGraph.capture_end", 6, code=901),
    )
    planted = finding(message=PLANTED, location=Location(PLANTED + ".py", 2, 2, 0, 5, PLANTED, PLANTED, source=2))
    process = broken.processes[0]
    sources = {**process.sources, 2: f"first\n{PLANTED}\nlast"}
    report = structs.replace(
        broken,
        argv=("decode.py", PLANTED),
        findings=(*broken.findings, planted),
        processes=(structs.replace(process, sources=sources),),
        timelines=(Timeline(1, 0, "failed", "MainThread", steps),),
        roots=Roots("/repo", "/repo"),
    )
    path = tmp_path / "report.html"
    write_file(report, Format.HTML, str(path))
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(path.as_uri())
    return browser


def picture(browser, name: str) -> None:
    """For people to look at, where a folder for them is named."""
    folder = os.environ.get("HTML_PICTURES")
    if folder:
        height = browser.execute_script("return document.documentElement.scrollHeight")
        browser.set_window_size(1200, min(height + 150, 6000))
        browser.save_screenshot(os.path.join(folder, f"{name}.png"))


def test_nothing_is_fetched_nothing_is_logged_and_nothing_planted_runs(page):
    assert page.get_log("browser") == []
    requested = [
        entry["message"] for entry in page.get_log("performance") if "Network.requestWillBeSent" in entry["message"]
    ]
    assert len([message for message in requested if '"url":"file:' in message]) == 1
    assert not any('"url":"http' in message for message in requested)
    assert page.title != "hacked"
    assert page.execute_script("return document.scripts.length") == 1
    assert page.find_elements(By.TAG_NAME, "img") == []
    assert PLANTED in page.find_element(By.TAG_NAME, "h1").text


def test_everything_is_there(page):
    text = page.find_element(By.TAG_NAME, "body").text
    for said in ("CGD101 host-sync-in-capture", "if nxt.item() == eos:", "Capture 1: failed", "active → invalidated",
                 "cuMemHostAlloc", "Heat map of lines", "decode.py:9", "needs driver evidence"):  # fmt: skip
        assert said in text, said
    assert len(page.find_elements(By.CSS_SELECTOR, ".heat .heat-5")) >= 1
    source = page.find_element(By.CSS_SELECTOR, ".finding pre")
    assert [line.split()[0] for line in source.text.split("\n")] == ["6", "7", "8", "9", "10", "11", "12"]
    numbers = source.find_elements(By.CLASS_NAME, "number")
    assert len({number.rect["x"] for number in numbers}) == 1
    assert page.execute_script("return arguments[0].scrollWidth - arguments[0].clientWidth", source) == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read(page, scheme):
    page.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    page.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    picture(page, scheme)
    background = page.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (scheme == "light")
    contrasts = page.execute_script(CONTRASTS)
    assert len(contrasts) > 50
    assert [told for told in contrasts if told[0] < LOWEST_CONTRAST] == []


def test_the_page_is_no_wider_than_a_phone(page):
    page.set_window_size(500, 900)
    page.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.execute_script("return document.documentElement.scrollWidth - innerWidth") <= 0
    page.set_window_size(1200, 1600)


def test_it_is_usable_by_keyboard(page):
    def press(*keys):
        webdriver.ActionChains(page).send_keys(*keys).perform()

    focused: list[str] = []
    for _ in range(60):
        press(Keys.TAB)
        name = page.execute_script(
            "const e = document.activeElement; return e.tagName + '.' + (e.id || e.dataset.level || e.className)"
        )
        outline = page.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
        if name == "BODY.":
            break
        assert outline != "none", name
        focused.append(name)
    assert focused[0] == "A.skip"
    assert "BUTTON.theme" in focused
    assert "INPUT.error" in focused
    assert sum(name.startswith("SUMMARY") for name in focused) == 3
    assert any(name.startswith("PRE") for name in focused)

    summary = page.find_element(By.CSS_SELECTOR, ".finding summary")
    page.execute_script("arguments[0].focus()", summary)
    was_open = page.execute_script("return arguments[0].parentElement.open", summary)
    press(Keys.ENTER)
    assert page.execute_script("return arguments[0].parentElement.open", summary) != was_open

    box = page.find_element(By.CSS_SELECTOR, "input[data-level=error]")
    page.execute_script("arguments[0].focus()", box)
    press(Keys.SPACE)
    shown = [f.is_displayed() for f in page.find_elements(By.CSS_SELECTOR, ".finding.error")]
    assert shown
    assert not any(shown)
    assert page.find_element(By.CSS_SELECTOR, ".finding.warning").is_displayed()

    button = page.find_element(By.ID, "theme")
    before = page.execute_script("return getComputedStyle(document.body).backgroundColor")
    page.execute_script("arguments[0].focus()", button)
    press(Keys.SPACE)
    assert page.execute_script("return getComputedStyle(document.body).backgroundColor") != before
