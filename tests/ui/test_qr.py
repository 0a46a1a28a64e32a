"""``POST /api/qr``: the path that is drawn is the code of the text."""

import re

import segno

from tests.support.fixtures import Serve

TEXT = "http://192.168.1.20:8750/login#code=0123456789abcdef"


def test_the_path_draws_the_dark_modules_of_the_code(serve: Serve) -> None:
    client = serve().client()
    reply = client.post("/api/qr", {"text": TEXT}).json()
    drawn = [[0] * reply["size"] for _ in range(reply["size"])]
    for x, y, width in re.findall(r"M(\d+) (\d+)h(\d+)v1h-\3z", reply["path"]):
        for column in range(int(x), int(x) + int(width)):
            drawn[int(y)][column] = 1
    assert drawn == [list(row) for row in segno.make_qr(TEXT, error="m").matrix]


def test_a_text_that_a_camera_could_not_read_is_refused(serve: Serve) -> None:
    client = serve().client()
    assert client.post("/api/qr", {"text": "x" * 601}).status == 400
    assert client.post("/api/qr", {"text": ""}).status == 400
    assert client.post("/api/qr", {"text": "\u00e9\u20ac" * 300}).status in (200, 400)
