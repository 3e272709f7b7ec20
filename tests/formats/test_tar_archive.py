"""tar archives: a walk along their headers to the zeros at the end, of every kind that the standard library writes."""

from __future__ import annotations

import io
import pickle
import tarfile
import time

import pytest
from formats.making import judged, torch_zip, word_of
from formats.making_binary import Counting, cuts_called_complete, judged_bytes, tar, with_zeroed_tail
from hypothesis import given
from hypothesis import strategies as st

from ckpt_governor.facts import SmallSize, Structure

COMPLETE, INCOMPLETE, SHAPELESS = Structure.COMPLETE, Structure.INCOMPLETE, Structure.SHAPELESS
FORMS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}
WHOLE = tar()
END_AT = 512 * (4 + 2 + 6)
"""Four headers, and the blocks of 700 and 3000 bytes."""
FOLLOW = "bytes follow its end, and cannot be checked"
every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


def judge(data):
    """What the format says about these bytes."""
    return judged_bytes("tar", data)


def long_name(number):
    """More than a header has room for, and not only plain letters."""
    return f"{'folder/' * 20}é{'n' * 120}{number}"


def big_header(size, form):
    """The header of a file whose size needs more digits than the field has."""
    member = tarfile.TarInfo("big.bin")
    member.size = size
    return member.tobuf(form)


@every_form
def test_a_whole_archive_is_complete(form):
    assert judge(tar(form=form)) == (COMPLETE, "", None, False, SmallSize.PROOF)
    assert judge(tar((), form=form)).structure is COMPLETE


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT], ids=["gnu", "pax"])
def test_long_names_are_leapt_over(form):
    whole = tar(form=form, name=long_name)
    assert judge(whole).structure is COMPLETE
    end_at = len(whole.rstrip(b"\0"))
    assert all(judge(whole[:count]).structure is INCOMPLETE for count in range(0, end_at, 37))


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT], ids=["gnu", "pax"])
def test_a_file_beyond_eight_gigabytes_is_leapt_over_for_nothing(form):
    size = 9 << 30
    start = big_header(size, form)
    file = Counting(start, size=len(start) + size + 10_240 - len(start) % 512)
    assert judge(file).structure is COMPLETE
    assert file.read_bytes < 20_000
    assert judge(Counting(start, size=len(start) + size - 1)).structure is INCOMPLETE


def test_every_cut_is_incomplete_until_only_zeros_follow():
    complete = cuts_called_complete("tar", WHOLE)
    assert complete == list(range(END_AT + 1024, len(WHOLE)))
    assert all(judge(WHOLE[:count]).structure is INCOMPLETE for count in range(END_AT + 1024))


@pytest.mark.parametrize(
    ("data", "structure", "why"),
    [
        (b"", INCOMPLETE, "empty"),
        (WHOLE[:1000], INCOMPLETE, "it is cut at byte 1000, before its end"),
        (WHOLE[:END_AT], INCOMPLETE, f"it is cut at byte {END_AT}, before its end"),
        (WHOLE[:512] + b"x" * 512 + WHOLE[1024:], INCOMPLETE, "a header is damaged at byte 512"),
        (WHOLE[:512] + bytes(512) + WHOLE[1024:], INCOMPLETE, "a header is missing at byte 512"),
        (WHOLE + bytes(20_000), SHAPELESS, f"{20_000 + len(WHOLE) - END_AT - 1024} {FOLLOW}"),
        (tar([0] * 20_001), SHAPELESS, "it holds more files than can be checked"),
        (tar(pack="w:gz") + WHOLE, SHAPELESS, "it does not begin as tar does, and cannot be checked"),
    ],
    ids=["empty", "cut", "no end", "damaged header", "missing header", "many zeros", "many files", "packed"],
)  # fmt: skip
def test_what_is_no_whole_archive_says_why(data, structure, why):
    assert judge(data)[:2] == (structure, why)


def with_header(**fields):
    """An archive of one header with these fields, and the end."""
    member = tarfile.TarInfo("a")
    for field, value in fields.items():
        setattr(member, field, value)
    return member.tobuf(tarfile.GNU_FORMAT) + bytes(10_240)


@pytest.mark.parametrize("kind", [tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE])
def test_what_has_no_data_is_leapt_over_and_not_guessed_about_when_it_says_otherwise(kind):
    assert judge(with_header(type=kind)).structure is COMPLETE
    if kind == tarfile.LNKTYPE:
        assert judge(with_header(type=kind, size=100)).structure is SHAPELESS


def test_an_unknown_kind_of_file_has_no_shape():
    assert judge(with_header(type=b"Q"))[:2] == (SHAPELESS, "it holds a kind of file that cannot be checked")


def sparse(maps):
    """A sparse file of GNU tar with so many blocks of places before its data."""
    member = tarfile.TarInfo("a")
    member.type, member.size = tarfile.GNUTYPE_SPARSE, 700
    header = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    header[482] = 1 if maps else 0
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    blocks = b"".join(bytes(504) + bytes([number < maps - 1]) + bytes(7) for number in range(maps))
    return bytes(header) + blocks + b"d" * 1024


@pytest.mark.parametrize("maps", [0, 1, 3])
def test_a_sparse_file_is_leapt_over_with_its_maps(maps):
    assert judge(sparse(maps) + bytes(1024)).structure is COMPLETE
    assert judge(sparse(maps)).structure is INCOMPLETE


def test_names_as_global_headers_are_fine_and_sizes_in_them_are_not():
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT, pax_headers={"comment": "é"}):
        pass
    assert judge(made.getvalue()).structure is COMPLETE
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT, pax_headers={"size": "512"}):
        pass
    assert judge(made.getvalue()).structure is SHAPELESS


def test_a_lost_header_near_the_end_is_not_taken_for_the_end():
    last = END_AT - 6 * 512 - 512
    assert judge(WHOLE[:last] + bytes(1024) + WHOLE[last + 1024 :]).structure is SHAPELESS


def test_a_checksum_of_signed_bytes_is_accepted():
    header = bytearray(WHOLE[:512])
    header[:2] = b"\xe9\xe9"
    header[148:156] = b" " * 8
    total = sum(byte - 256 if byte > 127 else byte for byte in header)
    header[148:156] = b"%06o\0 " % total
    assert judge(bytes(header) + WHOLE[512:]).structure is COMPLETE


def test_no_headers_take_long():
    began_s = time.monotonic()
    assert judge(with_header(type=b"x", size=1 << 40)).structure is INCOMPLETE
    assert judge(with_header(type=b"x", size=5 << 20) + bytes(6 << 20)).structure is SHAPELESS
    assert judge(sparse(0)[:512] * 9).structure is INCOMPLETE
    assert judge(WHOLE[:512] * 30_000).structure is SHAPELESS
    assert time.monotonic() - began_s < 5.0


@given(st.binary(max_size=600), st.integers(0, 3000), st.integers(0, 600))
def test_no_bytes_make_the_check_fail_in_another_way(noise, at, gone):
    for data in (noise, WHOLE[:at] + noise + WHOLE[at + gone :]):
        assert judge(data).structure in (COMPLETE, INCOMPLETE, SHAPELESS)


def test_an_end_that_nobody_wrote_is_never_taken_for_the_end(tmp_path):
    path = tmp_path / "model.nemo"
    path.write_bytes(tar([300_000, 300_000]))
    with_zeroed_tail(path, 0.7, hole=True)
    assert judged("tar", path, age_s=1.0).structure is INCOMPLETE
    with_zeroed_tail(path, 0.3)
    assert judged("tar", path, age_s=60.0).structure is SHAPELESS


@pytest.mark.parametrize("name", ["model.nemo", "step_5.tar", "checkpoint_100"])
@every_form
def test_it_is_recognised_by_its_bytes(name, form):
    assert word_of(name, tar(form=form)[:512]) == "tar"


def test_it_is_recognised_by_name_only_before_its_first_byte():
    assert word_of("model.nemo", b"") == "tar"
    assert word_of("model.nemo", tar(pack="w:gz")[:512]) == "file"
    assert word_of("model.pth.tar", torch_zip()[:512]) == "torch-zip"
    assert word_of("data.whatever", WHOLE[:512]) is None
    assert word_of("model.pth.tar", pickle.dumps({"a": bytes(600)})[:512]) != "tar"
    assert word_of("model.tar", bytes(512)) == "file"


@pytest.mark.parametrize("name", ["model.tar", "model_1.nemo"])
@pytest.mark.parametrize("count", [1, 2, 8, 100, 300, 511])
@every_form
def test_what_is_cut_in_its_first_header_is_incomplete(name, count, form):
    data = tar(form=form)[:count]
    assert word_of(name, data) == "tar"
    assert judge(data).structure is INCOMPLETE


@pytest.mark.parametrize("head", [b"\x1f\x8b\x08\x00", b"\x80\x02}", b"\x00", b"\xfd7zXZ"])
def test_a_short_file_of_another_kind_is_no_archive(head):
    assert word_of("model.tar", head) != "tar"
