"""The pages as a person uses them: desktop and phone, mouse and keyboard, in Chromium."""

from __future__ import annotations

import os
import re
from base64 import b64encode
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

pytest.importorskip("fastapi", reason="the extra 'app' is not installed")
pytest.importorskip("playwright", reason="the extra 'browser' is not installed")

from playwright.sync_api import expect

pytestmark = pytest.mark.browser

DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}
PAGES = [
    "/",
    "/worklist",
    "/cases/1",
    "/clinic",
    "/calibrations/1",
    "/rules",
    "/rules/1",
    "/results",
    "/study",
    "/audit",
    "/about",
    "/api/docs",
    "/nowhere",
]


expect.set_options(timeout=60_000)  # a busy machine is no reason to fail


@pytest.fixture
def settings(settings):
    from temperance_skin_lesion.agreement import Agreement

    # Drawn pictures ask for bolder maps than those of a clinic.
    wide = Agreement(temperature=(0.1, 100), bias=100)
    return settings.model_copy(update={"agreement": wide})


@contextmanager
def opened(chromium, address, viewport):
    """A page whose scripts may not complain."""
    context = chromium.new_context(viewport=viewport, base_url=address)
    context.set_default_timeout(60_000)
    page = context.new_page()
    complaints = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    yield page
    context.close()
    # A refused file or page is an answer of the server, not a fault of the script.
    assert [c for c in complaints if "status of 4" not in c] == []


@pytest.fixture(params=[DESKTOP, PHONE], ids=["desktop", "phone"])
def page(chromium, address, request):
    with opened(chromium, address, request.param) as page:
        yield page


@pytest.fixture
def desktop(chromium, address):
    """What has a keyboard and a file manager."""
    with opened(chromium, address, DESKTOP) as page:
        yield page


@pytest.fixture
def photos(tmp_path, lesions):
    folder = tmp_path / "photos"
    folder.mkdir()
    for i, content in enumerate(lesions(3)):
        (folder / f"lesion{i}.jpg").write_bytes(content)
    (folder / "broken.jpg").write_bytes(b"nothing")
    return sorted(map(str, folder.iterdir()))


def look(page, name):
    """Keep a screenshot where TEMPERANCE_SCREENSHOTS says, to be looked at."""
    directory = os.environ.get("TEMPERANCE_SCREENSHOTS")
    if directory:
        width = page.viewport_size["width"]
        page.screenshot(path=Path(directory) / f"skin-{name}-{width}.png", full_page=True)


def drop(page, content, times, empty=0):
    """Drop a file on the page, many times at once and with empty ones, as a file manager would."""
    transfer = page.evaluate_handle(
        """([content, times, empty]) => {
            const bytes = Uint8Array.from(atob(content), c => c.charCodeAt(0));
            const transfer = new DataTransfer();
            for (let i = 0; i < times + empty; i++) {
                const part = i < times ? bytes : "";
                const file = new File([part], `dropped${i}.jpg`, { type: "image/jpeg" });
                transfer.items.add(file);
            }
            return transfer;
        }""",
        [b64encode(content).decode(), times, empty],
    )
    page.dispatch_event("[data-drop]", "drop", {"dataTransfer": transfer})


def proposals(address, contents, n):
    """Let a program collect pictures of a clinic and ask for ``n`` maps, which wait."""
    import httpx

    with httpx.Client(base_url=address, timeout=120) as program:
        survey = program.post("/api/v1/surveys").json()["survey"]
        files = [("files", (f"{i}.jpg", c, "image/jpeg")) for i, c in enumerate(contents)]
        program.post(f"/api/v1/surveys/{survey}/images", files=files)
        for _ in range(n):
            program.post(f"/api/v1/surveys/{survey}/proposal", json={"prior": PRIOR})


def tab_to(page, target, presses=40):
    """Press Tab until something has the focus, and see that it shows."""
    for _ in range(presses):
        if target.evaluate("element => element === document.activeElement"):
            assert target.evaluate("element => getComputedStyle(element).outlineStyle") == "solid"
            return
        page.keyboard.press("Tab")
    pytest.fail(f"{target} was not reached by {presses} presses of Tab")


def judged(address, contents, **fields):
    """Let a program judge pictures."""
    import httpx

    files = [("files", (f"{i}.jpg", c, "image/jpeg")) for i, c in enumerate(contents)]
    answer = httpx.post(f"{address}/api/v1/predict", files=files, data=fields, timeout=120)
    return answer.json()["cases"]


@pytest.mark.parametrize("path", PAGES)
def test_nothing_is_wider_than_the_screen(page, address, lesions, path):
    judged(address, lesions(3))
    page.goto(path)
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    expect(page.get_by_text("Research use only.")).to_be_visible()
    assert page.evaluate("document.querySelectorAll('h1').length") == 1
    look(page, path.strip("/").replace("/", "-") or "judge")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_in_light_and_dark(chromium, address, lesions, scheme, worst_contrast):
    judged(address, lesions(3))
    context = chromium.new_context(viewport=DESKTOP, base_url=address, color_scheme=scheme)
    page = context.new_page()
    for path in PAGES:
        page.goto(path)
        ratio, text = worst_contrast(page)
        assert ratio >= 4.5, (path, text)
        look(page, f"{scheme}-{path.strip('/').replace('/', '-') or 'judge'}")
    context.close()


def test_choosing_files_shows_the_most_urgent_first_with_a_summary(page, photos):
    page.goto("/")
    page.set_input_files("#files", photos)
    expect(page.get_by_text("Done:")).to_contain_text("3 judged")
    expect(page.get_by_text("Done:")).to_contain_text("1 not taken")
    expect(page.locator("article.case")).to_have_count(3)
    expect(page.get_by_role("alert")).to_contain_text("broken.jpg: this is not a picture")
    first = page.locator("article.case").first
    expect(first.get_by_role("row")).to_have_count(8)
    expect(first.locator(".urgency")).to_be_visible()
    expect(first.locator("p.malignant")).to_contain_text("Probability of a malignant lesion")
    order = page.locator("article.case").evaluate_all("c => c.map(x => x.dataset.urgency)")
    ranks = [["urgent", "soon", "routine", "retake"].index(word) for word in order]
    assert ranks == sorted(ranks)
    counts = page.locator("[data-counts] td").all_inner_texts()
    assert sum(map(int, counts[:4])) == sum(map(int, counts[4:6])) == 3
    assert counts[6] == "1"
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    look(page, "judged")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save this batch").click()
    table = download.value.path().read_text()
    assert '"lesion0.jpg"' in table
    assert len(table.splitlines()) == 4


def test_a_picture_of_something_else_is_referred_without_a_diagnosis(page, tmp_path):
    from PIL import Image
    from sklearn.datasets import load_sample_image

    Image.fromarray(load_sample_image("flower.jpg")).save(tmp_path / "flower.jpg")
    page.goto("/")
    page.set_input_files("#files", [str(tmp_path / "flower.jpg")])
    flower = page.locator("article.case").first
    expect(flower.locator(".urgency")).to_have_text("Retake")
    expect(flower.get_by_role("heading")).to_have_text("Not recognised as a dermatoscopic picture")
    expect(flower.get_by_role("table")).to_have_count(0)


def test_a_thousand_files_can_be_dropped_and_are_counted_right(desktop, lesions):
    """Forty pictures among empty files, which the server refuses for the price of a look."""
    desktop.goto("/")
    drop(desktop, lesions(1)[0], 40, empty=963)
    expect(desktop.get_by_text("Done:")).to_be_visible(timeout=300_000)
    expect(desktop.get_by_text("Done:")).to_contain_text("40 judged")
    expect(desktop.get_by_text("Done:")).to_contain_text("963 not taken")
    expect(desktop.get_by_role("alert").first).to_contain_text(
        "1003 files were dropped; the first 1000"
    )
    shown = desktop.locator("article.case:not([hidden])")
    expect(shown).to_have_count(25)
    desktop.get_by_role("button", name="Show all 40").click()
    expect(shown).to_have_count(40)
    desktop.get_by_role("link", name="Open the worklist").click()
    expect(desktop.locator(".counts .value").first).to_be_visible()
    expect(desktop.get_by_text("40 cases, page 1 of 2")).to_be_visible()


def test_a_name_cannot_run_code(page, tmp_path, lesions):
    hostile = tmp_path / "<img src=x onerror=document.title=1>.jpg"
    hostile.write_bytes(lesions(1)[0])
    page.goto("/")
    page.set_input_files("#files", [str(hostile)])
    expect(page.locator("article.case")).to_have_count(1)
    assert page.title() != "1"
    assert page.locator("article img").count() == 1


@pytest.mark.parametrize("place", ["/clinic", "/results"])
def test_the_clinic_must_say_what_it_knows_of_its_mix(page, address, lesions, place):
    judged(address, lesions(1))
    page.goto(place)
    if place == "/results":
        page.get_by_text("Propose a new calibration from").click()
    form = page.locator("form:has([data-mix])")
    assert form.locator("input[name=mix]:checked").count() == 0
    numbers = form.locator("input[type=number]")
    assert {n.input_value() for n in numbers.all()} == {""}
    valid = "form => form.checkValidity()"
    assert not form.evaluate(valid)
    page.get_by_label("I don't know").check()
    expect(numbers.first).to_be_disabled()
    assert form.evaluate(valid)
    page.get_by_label("I know it roughly").check()
    assert not form.evaluate(valid)
    for number, count in zip(numbers.all(), (10, 60, 5, 4, 11, 0, 2), strict=True):
        number.fill(str(count))
    expect(form.locator("[data-sum]")).to_have_text("92.0")
    assert not form.evaluate(valid)
    look(page, f"mix-wrong{place.replace('/', '-')}")
    page.get_by_role("button", name="Scale to 100 %").click()
    assert sum(float(n.input_value()) for n in numbers.all()) == pytest.approx(100, abs=0.15)
    assert float(numbers.first.input_value()) == pytest.approx(1000 / 92, abs=0.06)
    expect(page.get_by_role("button", name="Scale to 100 %")).to_be_hidden()
    assert form.evaluate(valid)
    look(page, f"mix{place.replace('/', '-')}")


def state_the_mix(page):
    """Type the shares of `PRIOR` into the form."""
    page.get_by_label("I know it roughly").check()
    for code, share in PRIOR.items():
        page.locator(f"#mix-{code}").fill(f"{100 * share:g}")


def test_tick_labels_of_the_chart_stand_at_their_values(page):
    page.goto("/rules")
    ticks = page.evaluate(
        """() => [...document.querySelectorAll('.plot')].flatMap(plot => {
          const box = plot.querySelector('.canvas').getBoundingClientRect();
          const middle = t => (b => [b.left + b.width / 2, b.top + b.height / 2])(
            t.getBoundingClientRect());
          const of = (name, place) => [...plot.querySelectorAll(name)].map((t, i, all) =>
            [parseFloat(t.textContent) / parseFloat(all.at(-1).textContent), place(middle(t))]);
          return [...of('.y text', ([x, y]) => (box.bottom - y) / box.height),
                  ...of('.axis text', ([x, y]) => (x - box.left) / box.width)];
        })"""
    )
    assert len(ticks) >= 8
    for value, place in ticks:
        assert place == pytest.approx(value, abs=0.01)


def test_rules_are_previewed_proposed_and_accepted(page):
    page.goto("/rules")
    referred = page.locator("[data-effect] tr", has_text="referred to a specialist")
    before = referred.locator("td").first.inner_text()
    ring = page.locator("circle.operating.validation")
    place = ring.get_attribute("cx")
    page.get_by_label("An answer needs").fill("0.95")
    expect(page.locator("[data-problem]")).to_contain_text("must not be below")
    page.get_by_label("The answer melanoma needs").fill("1")
    expect(referred.locator("td").first).not_to_have_text(before)
    assert ring.get_attribute("cx") != place  # the chart follows what is typed
    expect(page.locator("[data-problem]")).to_be_hidden()
    page.get_by_label("Melanoma is excluded up to").fill("0.5")
    page.get_by_label("Urgent from melanoma").fill("0.6")
    expect(page.locator("[data-effect] .problem").first).to_contain_text("agreed")
    look(page, "rules-outside")
    page.get_by_label("Melanoma is excluded up to").fill("0.02")
    page.get_by_label("Urgent from melanoma").fill("0.2")
    expect(page.locator("[data-effect] .problem")).to_have_count(0)
    page.get_by_label("Reason").fill("answer less")
    page.get_by_role("button", name="Propose these rules").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Rules 2")
    look(page, "rules-proposed")
    page.get_by_role("button", name="Accept").click()
    expect(page.get_by_role("heading", name="In force: rules 2")).to_be_visible()
    page.get_by_role("button", name="Back to the former rules (1)").click()
    expect(page.get_by_role("heading", name="In force: rules 1")).to_be_visible()


def test_diagnoses_are_entered_by_single_keys(desktop, address, lesions):
    def ready(heading):
        expect(desktop.get_by_role("heading", level=1)).to_contain_text(heading)
        expect(desktop.locator("[data-keys]")).to_be_visible()  # the script listens

    judged(address, lesions(3))
    desktop.goto("/worklist?order=newest")
    ready("Worklist")
    desktop.keyboard.press("j")
    expect(desktop.locator("[data-row]").first).to_be_focused()
    desktop.keyboard.press("j")
    desktop.keyboard.press("k")
    desktop.keyboard.press("Enter")
    ready("Case 3")
    desktop.keyboard.press("1")
    desktop.keyboard.press("f")
    desktop.keyboard.press("Enter")
    ready("Case 2")
    desktop.keyboard.press("8")
    desktop.keyboard.type("squamous cell carcinoma")
    desktop.keyboard.press("Enter")  # nothing is saved before its source is said
    expect(desktop.locator("input[name=source]:invalid")).to_have_count(5)
    desktop.get_by_label("histology").check()
    desktop.keyboard.press("Enter")
    ready("Case 1")
    desktop.keyboard.press("p")
    ready("Case 2")
    expect(desktop.locator(".history")).to_contain_text(
        "Other (squamous cell carcinoma), histology"
    )
    desktop.goto("/worklist?state=diagnosed&order=newest")
    expect(desktop.locator("tbody tr")).to_have_count(2)
    expect(desktop.locator("tbody tr").first).to_contain_text("Melanoma follow-up")
    look(desktop, "worklist-diagnosed")


def test_what_is_pressed_while_the_next_case_is_on_its_way_is_not_entered_here(
    desktop, address, lesions
):
    """On a slow line, the keys for the next case came to the former one and changed its diagnosis.

    Playwright waits for a page on its way, so that a script of the page presses the keys.
    """
    judged(address, lesions(3))
    press = """keys => { for (const key of keys) {
        const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
        (document.activeElement || document.body).dispatchEvent(event);
    } }"""
    for case, keys in (
        ("3", ["2", "h", "Enter", "1", "h", "Enter"]),
        ("1", ["p", "1", "h", "Enter"]),
    ):
        desktop.goto(f"/cases/{case}?order=newest")
        expect(desktop.locator("[data-keys]")).to_be_visible()
        desktop.evaluate(press, keys)
        expect(desktop.get_by_role("heading", level=1)).to_contain_text("Case 2")
    desktop.goto("/cases/3")
    expect(desktop.locator(".history li")).to_have_count(1)
    expect(desktop.locator(".history")).to_contain_text("Melanocytic nevus, histology")
    for case in (1, 2):
        desktop.goto(f"/cases/{case}")
        expect(desktop.locator(".history")).to_have_count(0)


def test_the_search_and_its_filter_survive_saving(page, address, lesions):
    judged(address, lesions(4), lesion="P1-L1")
    page.goto("/worklist")
    page.get_by_label("Search").fill("P1-L1")
    page.get_by_label("Order").select_option("newest first")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**/worklist?q=P1-L1*")
    expect(page.locator("tbody tr")).to_have_count(4)
    page.locator("[data-row]").first.click()
    page.get_by_label("Dermatofibroma").check()
    page.get_by_label("expert").check()
    page.get_by_role("button", name="Save and next").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Case 3")
    expect(page.locator(".history")).to_contain_text("Dermatofibroma")  # one lesion, one diagnosis
    page.get_by_role("link", name="Worklist", exact=True).click()
    page.wait_for_url("**/worklist")
    page.go_back()
    page.get_by_role("link", name="← Worklist").click()
    expect(page.get_by_label("Search")).to_have_value("P1-L1")
    look(page, "worklist-search")


def test_every_page_is_reached_by_keyboard_alone(desktop):
    desktop.goto("/")
    desktop.keyboard.press("Tab")
    expect(desktop.get_by_role("link", name="Skip to the content")).to_be_focused()
    for name in ("Worklist", "Results", "Calibration", "Rules", "Audit", "About", "Judge"):
        tab_to(desktop, desktop.locator("header nav").get_by_role("link", name=name))
        desktop.keyboard.press("Enter")
        expect(desktop.locator("header nav [aria-current=page]")).to_have_text(name)


def test_a_kept_picture_is_shown(chromium, serve, settings, lesions):
    with serve(settings.model_copy(update={"keep_images": True})) as address:
        judged(address, lesions(1))
        page = chromium.new_page(base_url=address)
        page.goto("/cases/1")
        picture = page.get_by_alt_text("Picture of case 1")
        expect(picture).to_be_visible()
        assert picture.evaluate("image => image.naturalWidth") == 128
        look(page, "case-kept")
        frame = page.locator(".zoom")
        seen = picture.bounding_box()["width"]
        picture.click(position={"x": 10, "y": 10})  # looks nearer at that corner
        assert picture.bounding_box()["width"] == pytest.approx(3 * seen, abs=3)
        assert frame.evaluate("box => box.scrollLeft") == 0
        page.keyboard.press("z")
        assert picture.bounding_box()["width"] == pytest.approx(seen, abs=3)
        page.keyboard.press("z")  # in the middle
        assert frame.evaluate("box => box.scrollLeft") > 0
        page.goto("/worklist")
        thumb = page.locator("img.thumb")
        expect(thumb).to_be_visible()
        thumb.evaluate("image => image.decode()")
        assert thumb.evaluate("image => image.naturalWidth") == 128
        page.close()


def test_the_pages_work_without_javascript(chromium, address, photos):
    context = chromium.new_context(java_script_enabled=False, base_url=address)
    page = context.new_page()
    page.goto("/")
    page.set_input_files("#files", photos[1:3])
    page.get_by_role("button", name="Judge").click()
    expect(page.locator("article.case")).to_have_count(2)
    page.get_by_role("link", name=re.compile("Case")).first.click()
    page.get_by_label("Dermatofibroma").check()
    page.get_by_label("histology").check()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".history")).to_contain_text("Dermatofibroma")
    page.goto("/worklist?state=diagnosed")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.goto("/rules")
    page.get_by_label("An answer needs").fill("0.72")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("[data-effect] .quiet").first).to_contain_text("→")  # another page
    expect(page.get_by_label("An answer needs")).to_have_value("0.72")
    context.close()


def test_nothing_can_be_clicked_before_its_script_is_there(desktop, address, photos, lesions):
    """The script arrives late, as on a slow line; what was typed before it counts."""
    proposals(address, lesions(104), 1)
    held = []

    def late(path):
        desktop.goto(path, wait_until="commit")
        expect(desktop.get_by_role("heading", level=1)).to_be_visible()
        dead = desktop.locator("button[type=button], input[type=range]")
        expect(dead.locator("visible=true").and_(desktop.locator(":enabled"))).to_have_count(0)

    def arrives():
        while not held:
            desktop.wait_for_timeout(50)
        held.pop().continue_()
        desktop.wait_for_load_state("load")

    desktop.route("**/static/script.js", lambda route: held.append(route))  # noqa: PLW0108
    late("/clinic")
    desktop.get_by_label("I know it roughly").check()
    desktop.locator("#mix-nv").fill("40")
    arrives()
    expect(desktop.locator("[data-sum]")).to_have_text("40.0")
    expect(desktop.locator("[data-slider=nv]")).to_have_value("40")
    desktop.get_by_role("button", name="Fill in what was stated for calibration 2").click()
    expect(desktop.locator("[data-sum]")).to_have_text("100.0")
    late("/rules")
    desktop.get_by_label("An answer needs").fill("0.72")
    arrives()
    expect(desktop.locator("[data-effect] .quiet").first).to_contain_text("→")
    late("/")
    desktop.set_input_files("#files", photos[1:3])
    arrives()
    desktop.get_by_role("button", name="Judge").click()
    expect(desktop.get_by_text("Done:")).to_contain_text("2 judged")


def test_people_log_in_see_what_they_may_do_and_log_out(chromium, serve, settings, lesions):
    from temperance_skin_lesion import people
    from temperance_skin_lesion.store import Store

    secret = "a password of the test"  # noqa: S105
    with serve(settings) as address:
        judged(address, lesions(1))
        store = Store(settings.record)
        for role in people.ROLES:
            people.add(store, role, role, secret, "test")
        store.close()
        for role, viewport in zip(people.ROLES, (DESKTOP, PHONE, DESKTOP), strict=True):
            walk(chromium, address, viewport, role, secret)


def walk(chromium, address, viewport, role, secret):
    """Log in, look at every page, and log out again."""
    with opened(chromium, address, viewport) as page:
        page.goto("/worklist")
        page.get_by_label("Name").fill(role)
        page.get_by_label("Password").fill("wrong" if role == "reader" else secret)
        page.keyboard.press("Enter")
        if role == "reader":
            expect(page.get_by_role("alert")).to_contain_text("do not belong together")
            look(page, "login")
            expect(page.get_by_label("Name")).to_have_value(role)
            page.get_by_label("Password").fill(secret)
            page.keyboard.press("Enter")
        expect(page.locator(".me")).to_contain_text(role)
        page.goto("/cases/1")
        expect(page.get_by_role("button", name="Save")).to_have_count(int(role != "reader"))
        page.goto("/rules")
        expect(page.get_by_role("button", name="Propose these rules")).to_have_count(
            int(role != "reader")
        )
        for path in PAGES:
            page.goto(path)
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= viewport["width"], (role, path)
        page.goto("/")
        expect(page.locator("#files")).to_have_count(int(role != "reader"))
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Log in")


def test_a_clinic_gets_its_calibration_and_can_go_back(page, tmp_path, lesions):
    folder = tmp_path / "clinic"
    folder.mkdir()
    for i, content in enumerate(lesions(104)):
        (folder / f"{i:03}.jpg").write_bytes(content)
    (folder / "notes.txt").write_text("not a picture")
    page.goto("/clinic")
    page.set_input_files("#folder", str(folder))
    page.get_by_role("button", name="Propose a calibration").click()
    expect(page.locator("input[name=mix]:invalid")).to_have_count(3)  # nothing was said of it
    state_the_mix(page)
    page.get_by_role("button", name="Propose a calibration").click()
    page.wait_for_url("**/calibrations/2", timeout=120_000)
    expect(page.get_by_role("heading", level=1)).to_contain_text("Calibration 2")
    expect(page.get_by_role("heading", name="What changes")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    look(page, "calibration")
    page.get_by_role("button", name="Accept").click()
    expect(page.get_by_role("heading", name="In use: calibration 2")).to_be_visible()
    look(page, "clinic-accepted")
    page.get_by_role("button", name="Back to the former one (1)").click()
    expect(page.get_by_role("heading", name="In use: calibration 1")).to_be_visible()
    page.get_by_role("button", name="Use again calibration 2").click()
    expect(page.get_by_role("heading", name="In use: calibration 2")).to_be_visible()
    page.get_by_role("button", name="Fill in what was stated for calibration 2").click()
    expect(page.locator("[data-sum]")).to_have_text("100.0")


WATCH = """addEventListener("DOMContentLoaded", () => {
    const line = document.querySelector("[data-loading]");
    const keep = () => { if (!line.hidden) localStorage.setItem("said", line.textContent); };
    new MutationObserver(keep).observe(line, { attributes: true });
})"""


def test_a_page_that_takes_longer_is_said_to_be_on_its_way(desktop):
    """Playwright waits for a page on its way; another page of the same site looks meanwhile."""
    held = []
    desktop.add_init_script(WATCH)
    desktop.route("**/results", lambda route: held.append(route))  # noqa: PLW0108 - a plain one
    other = desktop.context.new_page()
    for page in (desktop, other):
        page.goto("/about")
    expect(desktop.locator("[data-loading]")).to_be_hidden()
    desktop.get_by_role("link", name="Results", exact=True).click(no_wait_after=True)
    for _ in range(400):
        said = other.evaluate("localStorage.getItem('said')")
        if said and held:
            break
        other.wait_for_timeout(50)
    assert said == "Loading…"
    held[0].continue_()
    desktop.wait_for_url("**/results")
    expect(desktop.locator("[data-loading]")).to_be_hidden()


def test_the_second_of_two_people_is_told(chromium, address, lesions):
    proposals(address, lesions(104), 2)
    first, second = (chromium.new_page(base_url=address) for _ in range(2))
    first.goto("/calibrations/2")
    second.goto("/calibrations/3")
    first.get_by_role("button", name="Accept").click()
    expect(first.get_by_role("heading", name="In use: calibration 2")).to_be_visible()
    second.get_by_role("button", name="Accept").click()
    expect(second.get_by_role("alert")).to_contain_text("Somebody decided in the meantime")
    look(second, "conflict")
    first.close()
    second.close()


PRIOR = {"mel": 0.1, "nv": 0.67, "bcc": 0.05, "akiec": 0.04, "bkl": 0.11, "df": 0.01, "vasc": 0.02}


def test_times_are_those_of_the_reader_and_name_their_zone(chromium, address, client, lesions):
    """Winter in Vienna is an hour ahead of UTC; without the script the page says UTC."""
    client.post("/api/v1/predict", files=[("files", ("a.jpg", lesions(1)[0], "image/jpeg"))])
    at = datetime.fromisoformat(client.get("/api/v1/cases/1").json()["created"])
    assert at.utcoffset() == timedelta(0)
    vienna = at.astimezone(ZoneInfo("Europe/Vienna"))
    for script, shown in (
        (True, f"{vienna:%Y-%m-%d %H:%M %Z}"),
        (False, f"{at:%Y-%m-%d %H:%M} UTC"),
    ):
        context = chromium.new_context(
            java_script_enabled=script, base_url=address, timezone_id="Europe/Vienna"
        )
        page = context.new_page()
        for place in ("/worklist", "/cases/1"):
            page.goto(place, timeout=60_000)
            expect(
                page.locator(f"time[datetime='{at.isoformat(timespec='milliseconds')}']").first
            ).to_have_text(shown)
        context.close()
