"""The pages as a person uses them: desktop and phone, mouse and keyboard, in Chromium."""

from __future__ import annotations

import os
import re
from base64 import b64encode
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra 'app' is not installed")
pytest.importorskip("playwright", reason="the extra 'browser' is not installed")

from playwright.sync_api import expect

pytestmark = pytest.mark.browser

DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}
PAGES = ["/", "/clinic", "/maps/1", "/threshold", "/log", "/about", "/api/docs", "/nowhere"]


expect.set_options(timeout=20_000)  # a busy machine is no reason to fail


@pytest.fixture
def settings(settings):
    from temperance_skin_lesion.clinic import Agreement

    # Drawn pictures ask for bolder maps than those of a clinic.
    wide = Agreement(temperature=(0.1, 100), bias=100)
    return settings.model_copy(update={"agreement": wide})


@contextmanager
def opened(chromium, address, viewport):
    """A page whose scripts may not complain."""
    context = chromium.new_context(viewport=viewport, base_url=address)
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


def drop(page, content, times):
    """Drop a file on the page, many times at once, as a file manager would."""
    transfer = page.evaluate_handle(
        """([content, times]) => {
            const bytes = Uint8Array.from(atob(content), c => c.charCodeAt(0));
            const transfer = new DataTransfer();
            for (let i = 0; i < times; i++)
                transfer.items.add(new File([bytes], `dropped${i}.jpg`, { type: "image/jpeg" }));
            return transfer;
        }""",
        [b64encode(content).decode(), times],
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


@pytest.mark.parametrize("path", PAGES)
def test_nothing_is_wider_than_the_screen(page, path):
    page.goto(path)
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    expect(page.get_by_text("Research use only.")).to_be_visible()
    assert page.evaluate("document.querySelectorAll('h1').length") == 1


def test_choosing_files_shows_answers_and_problems(page, photos):
    page.goto("/")
    page.set_input_files("#files", photos)
    expect(page.get_by_text("Done:")).to_contain_text("1 not taken")
    expect(page.locator("article.case")).to_have_count(3)
    expect(page.get_by_role("alert")).to_contain_text("broken.jpg: this is not a picture")
    first = page.locator("article.case").first
    expect(first.get_by_role("row")).to_have_count(8)
    expect(first.locator(".badge")).to_have_text(re.compile("Answer|Refer to a specialist"))
    assert first.locator("img").evaluate("image => image.naturalWidth") == 64
    look(page, "predict")


def test_a_picture_of_something_else_is_referred_without_a_diagnosis(page, tmp_path, lesions):
    from PIL import Image
    from sklearn.datasets import load_sample_image

    Image.fromarray(load_sample_image("flower.jpg")).save(tmp_path / "flower.jpg")
    (tmp_path / "lesion.jpg").write_bytes(lesions(1)[0])
    page.goto("/")
    page.set_input_files("#files", [str(tmp_path / "flower.jpg"), str(tmp_path / "lesion.jpg")])
    expect(page.locator("article.case")).to_have_count(2)
    flower = page.locator("article.case").first
    expect(flower.locator(".badge")).to_have_text("Refer to a specialist")
    expect(flower.get_by_role("heading")).to_have_text("Not recognised as a dermatoscopic picture")
    expect(flower.get_by_role("table")).to_have_count(0)
    expect(page.locator("article.case").last.get_by_role("row")).to_have_count(8)
    look(page, "foreign")


def test_two_hundred_files_can_be_dropped_and_the_rest_is_named(desktop, lesions):
    desktop.goto("/")
    drop(desktop, lesions(1)[0], 203)
    expect(desktop.get_by_text("Done:")).to_be_visible(timeout=300_000)
    expect(desktop.locator("article.case")).to_have_count(200)
    expect(desktop.get_by_role("alert")).to_contain_text("203 files were dropped; the first 200")


def test_a_name_cannot_run_code(page, tmp_path, lesions):
    hostile = tmp_path / "<img src=x onerror=document.title=1>.jpg"
    hostile.write_bytes(lesions(1)[0])
    page.goto("/")
    page.set_input_files("#files", [str(hostile)])
    expect(page.locator("article.case")).to_have_count(1)
    assert page.title() != "1"
    assert page.locator("article img").count() == 1


@pytest.mark.parametrize("place", ["/clinic", "/log"])
def test_the_clinic_must_say_what_it_knows_of_its_mix(page, place):
    page.goto(place)
    if place == "/log":
        page.get_by_text("Propose a new map from").click()
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


def test_a_policy_is_previewed_while_it_is_typed_then_saved(page):
    page.goto("/threshold")
    referred = page.locator("[data-effect] tbody tr").first.locator("td").first
    page.get_by_label("An answer needs").fill("0.999")
    expect(page.locator("[data-problem]")).to_contain_text("must not be below")
    page.get_by_label("The answer melanoma needs").fill("1")
    expect(referred).to_have_text(re.compile(r"9\d\d\.\d|1000\.0"))
    expect(page.locator("[data-problem]")).to_be_hidden()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status")).to_contain_text("in force")
    expect(page.get_by_label("An answer needs")).to_have_value("0.999")
    look(page, "threshold")


def test_a_diagnosis_is_kept(page, photos):
    page.goto("/")
    page.set_input_files("#files", photos[1:2])
    expect(page.locator("article.case")).to_have_count(1)
    page.get_by_role("link", name="Log").click()
    page.get_by_label("Diagnosis of case 1").select_option("Dermatofibroma")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_label("Diagnosis of case 1")).to_have_value("df")
    expect(page.get_by_text("1 case, 1 with a later diagnosis.")).to_be_visible()
    look(page, "log")


def test_every_page_is_reached_by_keyboard_alone(desktop):
    desktop.goto("/")
    desktop.keyboard.press("Tab")
    expect(desktop.get_by_role("link", name="Skip to the content")).to_be_focused()
    for name in ("Clinic", "Threshold", "Log", "About", "Predict"):
        tab_to(desktop, desktop.locator("nav").get_by_role("link", name=name))
        desktop.keyboard.press("Enter")
        expect(desktop.locator("nav [aria-current=page]")).to_have_text(name)


def test_a_day_is_worked_by_keyboard_alone(desktop, photos, address, lesions):
    proposals(address, lesions(120), 1)
    desktop.goto("/")
    tab_to(desktop, desktop.locator("#files"))
    with desktop.expect_file_chooser() as chooser:
        desktop.keyboard.press("Space")
    chooser.value.set_files(photos[1:2])
    expect(desktop.locator("article.case")).to_have_count(1)

    desktop.goto("/log")
    tab_to(desktop, desktop.get_by_label("Diagnosis of case 1"), 80)
    desktop.keyboard.type("Derm")
    tab_to(desktop, desktop.locator("#case-1").get_by_role("button", name="Save"))
    desktop.keyboard.press("Enter")
    expect(desktop.get_by_text("1 case, 1 with a later diagnosis.")).to_be_visible()

    desktop.goto("/maps/2")
    tab_to(desktop, desktop.get_by_role("button", name="Accept"))
    desktop.keyboard.press("Enter")
    expect(desktop.get_by_role("heading", name="In use: map 2")).to_be_visible()

    desktop.goto("/threshold")
    tab_to(desktop, desktop.get_by_label("An answer needs"))
    desktop.keyboard.press("Control+A")
    desktop.keyboard.type("0.61")
    with desktop.expect_navigation():  # Enter takes the form's first button: it shows
        desktop.keyboard.press("Enter")
    expect(desktop.get_by_label("An answer needs")).to_have_value("0.61")
    expect(desktop.locator("#threshold-hint")).to_contain_text("in force: 0.7")
    tab_to(desktop, desktop.get_by_role("button", name="Save"))
    desktop.keyboard.press("Enter")
    expect(desktop.locator("#threshold-hint")).to_contain_text("in force: 0.61")


def test_a_slider_moves_by_keyboard(desktop):
    desktop.goto("/clinic")
    desktop.get_by_label("I counted it").check()
    desktop.get_by_label("Melanocytic nevus, share in percent").focus()
    for _ in range(10):
        desktop.keyboard.press("ArrowRight")
    expect(desktop.locator("#mix-nv")).to_have_value("1")
    expect(desktop.locator("[data-sum]")).to_have_text("1.0")


def test_the_pages_work_without_javascript(chromium, address, photos):
    context = chromium.new_context(java_script_enabled=False, base_url=address)
    page = context.new_page()
    page.goto("/")
    page.set_input_files("#files", photos[1:3])
    page.get_by_role("button", name="Judge").click()
    expect(page.locator("article.case")).to_have_count(2)
    page.goto("/threshold")
    page.get_by_label("An answer needs").fill("0.62")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_label("An answer needs")).to_have_value("0.62")
    expect(page.get_by_text("in force: 0.7", exact=False).first).to_be_visible()
    context.close()


def test_a_token_is_asked_for(chromium, serve, settings):
    guarded = settings.model_copy(update={"token": "open-sesame"})
    with serve(guarded) as address:
        page = chromium.new_page(base_url=address)
        page.goto("/log")
        page.get_by_label("Token").fill("guess")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("not the token")
        page.get_by_label("Token").fill("open-sesame")
        page.keyboard.press("Enter")
        expect(page.locator("nav [aria-current=page]")).to_have_text("Predict")
        page.close()


def test_a_clinic_gets_its_map_and_can_go_back(page, tmp_path, lesions):
    folder = tmp_path / "clinic"
    folder.mkdir()
    for i, content in enumerate(lesions(120)):
        (folder / f"{i:03}.jpg").write_bytes(content)
    (folder / "notes.txt").write_text("not a picture")
    page.goto("/clinic")
    page.set_input_files("#folder", str(folder))
    page.get_by_role("button", name="Propose a map").click()
    expect(page).to_have_url(re.compile("/clinic$"))  # nothing was said of the mix
    state_the_mix(page)
    page.get_by_role("button", name="Propose a map").click()
    page.wait_for_url("**/maps/2", timeout=60_000)
    expect(page.get_by_role("heading", level=1)).to_contain_text("Map 2")
    expect(page.get_by_role("heading", name="Findings")).to_be_visible()
    expect(page.get_by_role("heading", name="What this rests on")).to_be_visible()
    report = page.frame_locator("iframe.report")
    expect(report.locator("body")).not_to_be_empty()
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    look(page, "map")
    page.get_by_role("button", name="Accept").click()
    expect(page.get_by_role("heading", name="In use: map 2")).to_be_visible()
    look(page, "clinic")
    page.get_by_role("button", name="Back to the former map (1)").click()
    expect(page.get_by_role("heading", name="In use: map 1")).to_be_visible()
    page.get_by_role("button", name="Use again map 2").click()
    expect(page.get_by_role("heading", name="In use: map 2")).to_be_visible()


def test_the_second_of_two_people_is_told(chromium, address, lesions):
    proposals(address, lesions(120), 2)
    first, second = (chromium.new_page(base_url=address) for _ in range(2))
    first.goto("/maps/2")
    second.goto("/maps/3")
    first.get_by_role("button", name="Accept").click()
    expect(first.get_by_role("heading", name="In use: map 2")).to_be_visible()
    second.get_by_role("button", name="Accept").click()
    expect(second.get_by_role("alert")).to_contain_text("map 2 came into use")
    first.close()
    second.close()


PRIOR = {"mel": 0.1, "nv": 0.67, "bcc": 0.05, "akiec": 0.04, "bkl": 0.11, "df": 0.01, "vasc": 0.02}
