"""What the libraries say beside their results reaches the user on stderr, once, and cannot steer
the terminal."""

import logging

import pytest

from ncubble.cli.main import main


def version(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    return capsys.readouterr().err


def test_a_warning_of_a_room_is_one_line_without_control_characters(capsys):
    version(capsys)
    version(capsys)
    logging.getLogger("ncubble.analysis.report.cache_folder").warning("reading %s was cut off", "a\n\x1b[31mb")
    assert capsys.readouterr() == ("", "ncubble: reading a\\n\\x1b[31mb was cut off\n")


def test_what_is_no_warning_is_not_shown_and_a_traceback_is(capsys):
    version(capsys)
    logging.getLogger("ncubble.analysis.report.cache_folder").info("nothing to see")
    try:
        raise ValueError("why")
    except ValueError:
        logging.getLogger("ncubble.dashboard.data.store").exception("unexpected")
    said = capsys.readouterr().err
    assert "nothing to see" not in said
    assert "ncubble: unexpected" in said and "ValueError: why" in said
