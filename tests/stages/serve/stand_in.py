"""A stand-in for a model's server, of the standard library alone: it starts at once and does what a test asks for.

python stand_in.py MODE PORT MODEL JOURNAL
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MODE, PORT, MODEL, JOURNAL = sys.argv[1], int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
KEY = os.environ["POSTTRAIN_SERVE_KEY"]
LOCK = threading.Lock()
asked = 0


def text_for(messages: list[dict[str, str]]) -> str:
    """Return the right sum for even left sides of "what is A + B ?", a wrong one for odd ones, or if it is worse."""
    left, right = (int(word) for word in messages[-1]["content"].split() if word.isdigit())
    return str(left + right + (1 if MODE == "worse" else left % 2))


def choice(body: dict[str, Any]) -> dict[str, Any]:
    if MODE == "hostile":
        text = "4\x1b[2J<script>alert(1)</script>\ud800 __import__('os').system('touch pwned')"
    else:
        text = text_for(body["messages"])
    logprobs = [{"token": "x", "logprob": -0.5}] * 2
    return {"message": {"content": text}, "finish_reason": "stop", "logprobs": {"content": logprobs}}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/health":
            self.answer(503 if MODE == "never-healthy" else 200, {})
        elif self.headers.get("Authorization") != f"Bearer {KEY}" and MODE != "open":
            self.answer(401, {"error": "no key"})
        else:
            self.answer(200, {"data": [{"id": MODEL}]})

    def do_POST(self) -> None:
        global asked
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with LOCK:
            asked += 1
            number = asked
            with JOURNAL.open("a") as journal:
                journal.write(json.dumps({"path": self.path, **body}) + "\n")
        if MODE.startswith("dies-after-") and number > int(MODE.rpartition("-")[2]):
            print("CUDA error: an illegal memory access was encountered; key", KEY, flush=True)
            os._exit(13)
        if MODE == "hangs":
            time.sleep(3600)
        left = int(body["messages"][-1]["content"].split()[2])
        if (MODE == "fails-some" and left == 3) or MODE == "fails-all":
            self.answer(500, {"error": {"message": "out of cache"}})
        elif MODE == "refuses-some" and left == 3:
            self.answer(400, {"error": {"message": "too long"}})
        elif MODE == "no-logprobs":
            self.answer(200, {"choices": [{**choice(body), "logprobs": None}], "usage": {"completion_tokens": 2}})
        elif MODE == "positive":
            bad = {"content": [{"logprob": 3.0}]}
            self.answer(200, {"choices": [{**choice(body), "logprobs": bad}], "usage": {"completion_tokens": 2}})
        elif MODE == "tokens":
            self.answer(200, {"choices": [choice(body)], "usage": {"completion_tokens": 10**9}})
        else:
            self.answer(200, {"choices": [choice(body)], "usage": {"completion_tokens": 2}})

    def answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: Any) -> None:
        pass


def main() -> None:
    if MODE == "dies-at-start":
        raise SystemExit("torch.OutOfMemoryError: CUDA out of memory")
    if MODE in ("hangs", "children", "stubborn"):  # what vLLM's engine is to its server
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], start_new_session=True)
        JOURNAL.write_text(json.dumps({"child": child.pid, "server": os.getpid()}) + "\n")
    if MODE == "stubborn":
        import signal

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()


if __name__ == "__main__":
    main()
