"""Slim sections: what the analysis reads stays, and a section that is not understood is left
whole."""

from ncubble.profiling.metrics.metrics import MetricSelection, prepare, resolve, slim
from ncubble.profiling.ncu import ncu_argv

SECTION = """Identifier: "PmSampling"
Metrics {
  Metrics {
    Name: "gpc__cycles_elapsed.max"
  }
}
Group {
  Name: "g1"
}
Body {
  Timeline {
    MetricRows {
      Metrics {
        Name: "TPC.TriageCompute.sm__cycles_active.avg"
        Groups: "g1"
        Options {
          Name: "pmsampling:sm__cycles_active.avg"
        }
      }
    }
    MetricRows {
      Metrics {
        Name: "LTS.TriageCompute.lts__average_hit_rate.pct"
      }
    }
  }
}
"""


def test_only_wanted_metrics_stay_and_groups_with_them():
    text = slim(SECTION, ["sm__cycles_active"])
    assert 'Identifier: "Ncubble_PmSampling"' in text
    assert "sm__cycles_active" in text and 'Groups: "g1"' in text and 'Name: "g1"' in text
    assert "gpc__cycles_elapsed.max" in text
    assert "lts__average_hit_rate" not in text
    assert text.count("{") == text.count("}")


def test_a_section_without_any_wanted_metric_is_not_used():
    assert slim(SECTION, ["dramc__throughput"]) == ""
    assert slim("no section at all", ["sm__cycles_active"]) == ""


def test_prepare_writes_the_slim_section_and_names_both_folders(tmp_path):
    stock, out = tmp_path / "stock", tmp_path / "out"
    stock.mkdir()
    (stock / "PmSampling.section").write_text(SECTION)
    chosen = MetricSelection(
        ("timeline",), sections=("PmSampling", "LaunchStats"), slim={"PmSampling": ("sm__cycles_active",)}
    )
    found = prepare(out, chosen, stock)
    assert found.selection.sections == ("Ncubble_PmSampling", "LaunchStats")
    assert found.folders == (out, stock)
    argv = ncu_argv("ncu", tmp_path / "r", ["a"], found.selection, section_folders=found.folders)
    assert [argv[i + 1] for i, text in enumerate(argv) if text == "--section-folder"] == [str(out), str(stock)]
    assert (out / "Ncubble_PmSampling.section").is_file()


def test_without_ncus_files_the_whole_section_is_collected_and_said(tmp_path):
    found = prepare(tmp_path / "out", resolve(["timeline"]), None)
    assert found.selection.sections == ("PmSampling",) and found.folders == ()
    assert "collected in full" in found.selection.notes[0]
