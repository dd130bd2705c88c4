"""Hostile programs that use up: memory, processes, time, disk."""

from __future__ import annotations

from tests.runtime.sandbox.attack import attack

EXHAUSTING = [
    attack("fork-bomb", """
        def attack(world):
            while True:
                try:
                    os.fork()
                except OSError:
                    pass
    """, "timeout", "died", seconds=1.5),
    attack("fork-bomb-of-sleepers", """
        def attack(world):
            started = 0
            while started < 10000:
                try:
                    if os.fork() == 0:
                        time.sleep(60)
                        os._exit(0)
                    started += 1
                except OSError:
                    return "refused" if started <= world["most_processes"] else f"ESCAPED {started}"
            return "ESCAPED"
    """, "value", "died"),
    attack("thread-bomb", """
        def attack(world):
            started = 0
            try:
                while started < 5000:
                    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
                    started += 1
            except RuntimeError:
                return "refused" if started <= world["most_processes"] else f"ESCAPED {started}"
            return "ESCAPED"
    """, "value", "died", "memory"),
    attack("ten-gib", """
        def attack(world):
            return len(bytearray(10 << 30))
    """, "memory"),
    attack("ten-gib-by-and-by", """
        def attack(world):
            kept = []
            while True:
                try:
                    kept.append(bytearray(b"x") * (8 << 20))
                except MemoryError:
                    return "refused" if len(kept) < 20 else f"ESCAPED {len(kept)}"
    """, "value", "memory"),
    attack("ten-gib-in-many-processes", """
        def attack(world):
            for _ in range(10):
                if os.fork() == 0:
                    kept = []
                    while True:
                        try:
                            kept.append(bytearray(b"x") * (4 << 20))
                        except MemoryError:
                            time.sleep(60)
            time.sleep(60)
    """, "memory", "timeout", seconds=1.5),
    attack("ten-gib-shared", """
        def attack(world):
            import mmap
            area = mmap.mmap(-1, 10 << 30)
            for start in range(0, 10 << 30, 1 << 20):
                area[start : start + (1 << 20)] = b"x" * (1 << 20)
            return "ESCAPED"
    """, "memory", "raised", "died", "timeout", seconds=1.5),
    attack("ten-gib-shared-in-pieces", """
        def attack(world):
            import mmap
            kept = []
            while len(kept) < 640:
                kept.append(mmap.mmap(-1, 16 << 20))
                kept[-1].write(b"x" * (16 << 20))
            return "ESCAPED"
    """, "memory", "raised", "died", "timeout", seconds=1.5),
    attack("endless-in-python", """
        def attack(world):
            while True:
                pass
    """, "timeout", seconds=0.7),
    attack("endless-in-c", """
        def attack(world):
            return sum(itertools.repeat(0))
    """, "timeout", seconds=0.7),
    attack("endless-expression", """
        def attack(world):
            import re
            return bool(re.match("(a+)+$", "a" * 60 + "b"))
    """, "timeout", seconds=0.7),
    attack("endless-power", """
        def attack(world):
            return 9 ** 9 ** 9 ** 9
    """, "timeout", "memory", seconds=0.7),
    attack("endless-that-ignores-signals", """
        def attack(world):
            for number in range(1, 65):
                tries(lambda: done(signal.signal, number, signal.SIG_IGN))
            signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
            while True:
                try:
                    while True:
                        time.sleep(0.01)
                except BaseException:
                    pass
    """, "timeout", seconds=0.7),
    attack("sleep", """
        def attack(world):
            time.sleep(1000)
    """, "timeout", seconds=0.7),
    attack("stop-itself", """
        def attack(world):
            os.kill(os.getpid(), signal.SIGSTOP)
    """, "timeout", seconds=0.7),
    attack("full-disk", """
        def attack(world):
            written = 0
            try:
                for place in itertools.count():
                    with open(f"f{place}", "wb") as file:
                        for _ in range(15):
                            written += file.write(b"x" * (1 << 20))
                        file.flush()
            except OSError:
                return "refused" if written < 64 << 20 else f"ESCAPED {written}"
    """, "value", "output", "memory"),
    attack("one-large-file", """
        def attack(world):
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            with open("large", "wb") as file:
                return tries(lambda: done(file.truncate, 1 << 40), lambda: done(os.posix_fallocate, file.fileno(), 0, 1 << 34))
    """),
    attack("unlinked-files", """
        def attack(world):
            kept, written = [], 0
            try:
                while written < 1 << 30:
                    kept.append(open(f"f{len(kept)}", "wb", 0))
                    written += kept[-1].write(b"x" * (8 << 20))
                    try:
                        os.unlink(kept[-1].name)
                    except OSError:
                        pass
            except OSError:
                return "refused" if written < 64 << 20 else f"ESCAPED {written}"
            return "ESCAPED"
    """, "value", "output", "memory"),
    attack("all-inodes", """
        def attack(world):
            for place in range(1 << 20):
                try:
                    os.close(os.open(f"f{place}", os.O_CREAT | os.O_WRONLY))
                except OSError:
                    return "refused"
            return "ESCAPED"
    """, "value", "output", "timeout", seconds=1.5),
    attack("deep-folders", """
        def attack(world):
            for _ in range(100000):
                try:
                    os.mkdir("d" * 200)
                    os.chdir("d" * 200)
                except OSError:
                    return "refused"
            return "ESCAPED"
    """, "value", "output", "timeout", seconds=2.5),
]  # fmt: skip
