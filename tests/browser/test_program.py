"""The Program page in a real browser: the figure by kernel and by cause, the way to the page of a
kernel, and the states without a program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from ncubble.analysis.traces.lanes import run_id
from ncubble.dashboard.data.store import ReportStore
from tests.helpers.recorded_programs import program_of, torch_program, two_kernels

from .conftest import for_the_eye, photograph, serving

pytestmark = pytest.mark.browser
Open = Callable[..., Page]


def test_a_view_is_an_address_and_a_kernel_leads_to_its_page(tmp_path: Path, open_page: Open) -> None:
    torch_program(tmp_path / "train")
    store = ReportStore([tmp_path]).start()
    assert store.wait(60)
    with serving(store) as url:
        page = open_page(f"{url}/program")
        expect(page.locator(".legend").first).to_contain_text("lost between kernels 65.3 %")
        slices = page.locator(".js-plotly-plot .slice")
        expect(slices.filter(has_text="dependency")).to_be_visible()
        before = slices.count()
        page.get_by_role("link", name="by cause").click()
        expect(page.locator(".current", has_text="by cause")).to_be_visible()
        assert page.url.endswith(f"/program?run={run_id(tmp_path / 'train')}&by=cause")
        expect(slices.filter(has_text="tensor work")).to_be_visible()
        assert before > 10
        page.reload()
        expect(slices.filter(has_text="tensor work")).to_be_visible()
        page.get_by_role("link", name="nvjet_sm90").first.click()
        expect(page.locator("h1")).to_contain_text("nvjet_sm90")
        page.close()  # before its server


def test_none_and_a_damaged_one_say_so(tmp_path: Path, open_page: Open) -> None:
    with serving(ReportStore([tmp_path])) as url:
        page = open_page(f"{url}/program", color_scheme="dark")
        expect(page.locator("main")).to_contain_text("ncubble program -- python train.py")
        page.close()  # before its server
    run = program_of(tmp_path / "run", two_kernels())
    (run / "activity.parquet").write_bytes(b"no parquet")
    with serving(ReportStore([run])) as url:
        page = open_page(f"{url}/program")
        expect(page.locator("[role=alert]")).to_contain_text("not readable")
        page.close()  # before its server


@for_the_eye
def test_the_page_is_photographed_for_the_eye(tmp_path: Path, open_page: Open) -> None:
    torch_program(tmp_path / "train")
    store = ReportStore([tmp_path]).start()
    store.wait(60)
    with serving(store) as url:
        page = open_page(f"{url}/program")
        page.wait_for_timeout(2000)
        photograph(page, "program")
        page.close()  # before its server
