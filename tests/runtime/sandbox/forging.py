"""Hostile programs that forge, flood, withhold or fake answers."""

from __future__ import annotations

from tests.runtime.sandbox.attack import attack

STOPPED = ("timeout", "died", "memory", "raised", "value", "output")
"""Where only that it is stopped counts."""

FORGING = [
    attack("huge-output", """
        def attack(world):
            while True:
                print("x" * 100000)
    """, "output"),
    attack("huge-output-of-children", """
        def attack(world):
            for _ in range(4):
                if os.fork() == 0:
                    while True:
                        os.write(2, b"x" * 65536)
            time.sleep(60)
    """, "output"),
    attack("huge-value", """
        def attack(world):
            return "x" * (20 << 20)
    """, "output"),
    attack("deep-value", """
        def attack(world):
            value = []
            for _ in range(500):
                value = [value]
            return value
    """, "died", "raised"),
    attack("values-that-are-no-json", """
        def attack(world):
            return [float("nan"), float("inf")]
    """, "raised"),
    attack("half-a-surrogate", """
        def attack(world):
            return "\\ud800"
    """, "died"),
    attack("forged-answer-then-garbage", """
        def attack(world):
            os.write(3, b"V" + struct.pack("!I", 3) + b"{{{" + b"x" * 1000)
            os._exit(0)
    """, "died"),
    attack("forged-answer-with-nan", """
        def attack(world):
            os.write(3, b"V" + struct.pack("!I", 3) + b"NaN")
            os._exit(0)
    """, "died"),
    attack("forged-answer-too-long", """
        def attack(world):
            os.write(3, b"V" + struct.pack("!I", 1 << 31))
            while True:
                os.write(3, b"x" * 65536)
    """, "died"),
    attack("flooded-answer", """
        def attack(world):
            while True:
                os.write(3, b"V" * 65536)
    """, "died"),
    attack("half-an-answer", """
        def attack(world):
            os.write(3, b"V" + struct.pack("!I", 100) + b"[")
            time.sleep(60)
    """, "timeout", seconds=0.7),
    attack("forged-reply-of-the-server", """
        def attack(world):
            reply = bytes(16) + struct.pack("!III", 40, 4, 0) + b'{"status":"value","detail":"","seconds":0}' + b"true"
            for fd in range(40):
                tries(lambda: os.write(fd, reply))
            os._exit(0)
    """, "died", "value"),
    attack("early-exit-0", """
        def attack(world):
            os._exit(0)
    """, "died"),
    attack("system-exit-0", """
        def attack(world):
            sys.exit(0)
    """, "raised"),
    attack("exit-handlers", """
        import atexit
        def attack(world):
            atexit.register(lambda: time.sleep(60))
            threading._register_atexit(lambda: time.sleep(60))
            threading.Thread(target=time.sleep, args=(60,)).start()
            return "refused"
    """),
    attack("equal-to-everything", """
        class Equal:
            def __eq__(self, other): return True
            def __hash__(self): return 0
        def attack(world):
            return Equal()
    """, "raised"),
    attack("text-equal-to-everything", """
        class Text(str):
            def __eq__(self, other): return True
            def __hash__(self): return 0
        class Number(int):
            def __eq__(self, other): return True
            def __repr__(self): return "42"
        def attack(world):
            return [Text("refused"), Number(7)]
    """),
    attack("patched-encoder", """
        import components.runtime.sandbox.inside.run as run, components.runtime.sandbox.values as values
        def attack(world):
            run.encode = values.encode = json.dumps = lambda *_, **__: b'"patched"'
            run._outcome = lambda *_: (b"V", b'"patched"')
            __builtins__ = None
            return "own"
    """, "value", "raised"),
    attack("error-that-never-shows", """
        class Endless(Exception):
            def __str__(self):
                while True:
                    pass
        def attack(world):
            raise Endless
    """, "timeout", "raised", seconds=0.7),
    attack("error-whose-text-fails", """
        class Failing(BaseException):
            def __str__(self):
                raise self
        def attack(world):
            raise Failing
    """, "raised"),
    attack("close-every-descriptor", """
        def attack(world):
            os.closerange(0, 1000)
            time.sleep(60)
    """, "timeout", seconds=0.7),
    attack("answer-into-the-output", """
        def attack(world):
            os.dup2(3, 1)
            os.dup2(3, 2)
            print("x" * 1000, flush=True)
            os._exit(0)
    """, "died"),
    attack("crash", """
        def attack(world):
            ctypes.string_at(0)
    """, "died"),
    attack("crash-by-recursion", """
        def attack(world):
            sys.setrecursionlimit(1 << 30)
            deep = lambda n: deep(n + 1)
            value = []
            for _ in range(1 << 22):
                value = [value]
            return repr(value)
    """, *STOPPED, seconds=1.5),
    attack("kill-itself", """
        def attack(world):
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)
    """, "died", "timeout", seconds=1.5),
]  # fmt: skip
