"""Hostile programs that reach out: to the network, to files, to other processes, to the kernel."""

from __future__ import annotations

from tests.runtime.sandbox.attack import attack

NETWORK = [
    attack("tcp-loopback", """
        def attack(world):
            return tries(lambda: done(socket.create_connection(("127.0.0.1", world["tcp"]), 1).send, b"x"))
    """),
    attack("tcp-by-system-calls", """
        def attack(world):
            address = struct.pack("=HHI8x", 2, socket.htons(world["tcp"]), 0x0100007f)
            return tries(lambda: LIBC.connect(LIBC.socket(2, 1, 0), address, 16))
    """),
    attack("udp-loopback", """
        def attack(world):
            return tries(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", world["udp"])))
    """),
    attack("ipv6-loopback", """
        def attack(world):
            return tries(lambda: done(socket.create_connection(("::1", world["tcp"]), 1).close))
    """),
    attack("socket-in-a-folder", """
        def attack(world):
            return tries(lambda: done(socket.socket(socket.AF_UNIX).connect, world["unix"]))
    """),
    attack("abstract-socket", """
        def attack(world):
            return tries(lambda: done(socket.socket(socket.AF_UNIX).connect, "\\0" + world["abstract"]))
    """),
    attack("datagram-from-a-socket-pair", """
        def attack(world):
            pair = lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0]
            return tries(lambda: pair().sendto(b"x", "\\0" + world["datagram"]),
                         lambda: done(pair().connect, "\\0" + world["datagram"]),
                         lambda: done(socket.socketpair()[0].connect, "\\0" + world["abstract"]))
    """),
    attack("listen-and-netlink-and-vsock", """
        def attack(world):
            return tries(lambda: done(socket.socket().bind, ("127.0.0.1", 0)),
                         lambda: done(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close),
                         lambda: done(socket.socket(40, socket.SOCK_STREAM).close),
                         lambda: done(socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET).close))
    """),
]  # fmt: skip

FILES = [
    attack("read-etc", """
        def attack(world):
            return tries(*(lambda name=name: open(name).read(9) for name in
                           ("/etc/passwd", "/etc/shadow", "/etc/hostname", "/etc/resolv.conf")), lambda: os.listdir("/etc") != ["ld.so.cache"])
    """),
    attack("read-the-store", """
        def attack(world):
            return tries(lambda: open(world["file"]).read(), lambda: os.listdir(world["store"]),
                         lambda: os.open(world["store"], os.O_RDONLY | os.O_DIRECTORY))
    """),
    attack("read-home-and-tree", """
        def attack(world):
            return tries(lambda: open(world["home"] + "/.bashrc").read(), lambda: open(world["home"] + "/.profile").read(),
                         lambda: os.listdir(world["home"] + "/.ssh"), lambda: open(world["tree"] + "/Makefile").read())
    """),
    attack("search-everything", """
        def attack(world):
            for folder, folders, files in os.walk("/"):
                if any(name.startswith(world["marker"]) for name in folders + files):
                    return "ESCAPED " + folder
                if folder.count("/") > 4 or folder.startswith(("/usr/lib", "/proc")):
                    folders[:] = []
            return "refused"
    """, "value", "timeout", seconds=1.5),
    attack("write-to-the-store", """
        def attack(world):
            store, file = world["store"], world["file"]
            return tries(lambda: open(file, "a").write("x"), lambda: open(store + "/new", "w").write("x"),
                         lambda: done(os.truncate, file, 0), lambda: os.open(file, os.O_RDONLY | os.O_TRUNC),
                         lambda: done(os.unlink, file), lambda: done(os.rename, file, store + "/moved"),
                         lambda: done(os.mkdir, store + "/folder"), lambda: done(os.symlink, "x", store + "/link"))
    """),
    attack("change-marks-of-files", """
        def attack(world):
            return tries(lambda: done(os.chmod, world["file"], 0o777), lambda: done(os.utime, world["file"], (1, 1)),
                         lambda: done(os.chown, world["file"], 1, 1), lambda: done(os.chmod, world["store"], 0),
                         lambda: done(os.setxattr, world["file"], "user.x", b"x"),
                         lambda: done(os.utime, os.__file__, (1, 1)), lambda: done(os.chmod, os.__file__, 0o600))
    """),
    attack("write-anywhere-outside", """
        def attack(world):
            places = ["/", "/usr/lib", "/etc", "/dev", "/dev/shm", "/proc", "/proc/sys/kernel", "/var/tmp", "/root", "/home",
                      "/sys", "/run", os.path.dirname(os.__file__), world["tree"] + "/components", world["outer"]]
            mine = os.stat(".").st_dev  # folders of sys.path below /tmp may lie in the private folder, which ends with the run
            places += [place for place in sys.path if not os.path.isdir(place) or os.stat(place).st_dev != mine
                       or mine == os.stat("/").st_dev]
            return tries(*(lambda place=place: open(place + "/escaped-" + world["marker"], "w").write("x") for place in places))
    """),
    attack("links-out-of-tmp", """
        def attack(world):
            tries(lambda: done(os.symlink, world["file"], "link"), lambda: done(os.symlink, world["store"], "folder"))
            return tries(lambda: open("link").read(), lambda: open("link", "a").write("x"), lambda: os.listdir("folder"),
                         lambda: done(os.link, world["file"], "hard"), lambda: open("../" * 20 + world["file"]).read())
    """),
    attack("kernel-files", """
        def attack(world):
            return tries(*(lambda name=name: done(open(name, "w").write, "1") for name in (
                "/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory", "/dev/mem", "/dev/kmsg",
                "/sys/fs/cgroup/cgroup.procs")), lambda: open("/proc/kcore", "rb").read(1), lambda: open("/dev/kmsg").read(1))
    """),
    attack("leave-and-find", """
        def attack(world):
            open("left-behind", "w").write("x")
            return "refused"
    """),
]  # fmt: skip

PROCESSES = [
    attack("kill-everybody", """
        def attack(world):
            os.kill(-1, signal.SIGKILL)
            return "refused"
    """, "value", "died", "raised"),
    attack("kill-our-process", """
        def attack(world):
            for pid in {world["parent"], world["victim"]} - {os.getpid()}:  # in a PID namespace this may be one of its own
                for number in (signal.SIGTERM, signal.SIGSTOP, signal.SIGKILL):
                    tries(lambda: done(os.kill, pid, number), lambda: done(os.killpg, pid, number))
            return "refused"
    """),
    attack("kill-the-server", """
        def attack(world):
            for pid in {os.getppid(), 1, *range(2, 30)} - {os.getpid()}:
                for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
                    tries(lambda: done(os.kill, pid, number))
            return "refused"
    """, "value", "died"),
    attack("signal-by-other-calls", """
        def attack(world):
            number = {"x86_64": (129, 297, 200), "aarch64": (138, 240, 130)}[os.uname().machine]
            info = struct.pack("iii", signal.SIGKILL, 0, -1).ljust(128, b"\\0")
            fd = lambda: os.pidfd_open(world["victim"])
            def owner():
                import fcntl
                reader, writer = os.pipe()
                fcntl.fcntl(reader, fcntl.F_SETOWN, world["victim"])
                return True
            return tries(lambda: LIBC.syscall(number[0], world["victim"], signal.SIGKILL, info),
                         lambda: LIBC.syscall(number[1], world["victim"], world["victim"], signal.SIGKILL, info),
                         lambda: LIBC.syscall(number[2], world["victim"], signal.SIGKILL),
                         lambda: done(signal.pidfd_send_signal, fd(), signal.SIGKILL), owner)
    """),
    attack("trace-other-processes", """
        def attack(world):
            LIBC.ptrace.restype = ctypes.c_long
            return tries(*(lambda pid=pid, how=how: LIBC.ptrace(how, pid, 0, 0)
                           for pid in (world["victim"], world["parent"], os.getppid(), 1) for how in (16, 0x4206)))
    """),
    attack("memory-of-other-processes", """
        def attack(world):
            number = {"x86_64": (310, 311), "aarch64": (270, 271)}[os.uname().machine]
            here = ctypes.create_string_buffer(64)
            local = struct.pack("PN", ctypes.addressof(here), 64)
            pids = (world["victim"], world["parent"], os.getppid(), 1)
            return tries(*(lambda pid=pid, call=call: LIBC.syscall(call, pid, local, 1, local, 1, 0) for pid in pids for call in number),
                         *(lambda pid=pid: open(f"/proc/{pid}/mem", "r+b").fileno() for pid in pids),
                         *(lambda pid=pid: open(f"/proc/{pid}/maps").read() for pid in pids))
    """),
    attack("limits-of-other-processes", """
        def attack(world):
            import resource
            pids = (world["victim"], world["parent"], os.getppid() or world["victim"])
            return tries(*(lambda pid=pid: resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, 3)) for pid in pids),
                         *(lambda pid=pid: done(os.sched_setaffinity, pid, {0}) for pid in pids),
                         *(lambda pid=pid: done(os.setpriority, os.PRIO_PROCESS, pid, 19) for pid in pids),
                         lambda: done(os.setpriority, os.PRIO_USER, 0, 19))
    """),
    attack("environments-in-proc", """
        def attack(world):
            found = []
            for pid in [name for name in (os.listdir("/proc") if os.access("/proc", os.R_OK) else []) if name.isdigit()]:
                tries(lambda: found.append(open(f"/proc/{pid}/environ").read()))
            tries(*(lambda pid=pid: found.append(open(f"/proc/{pid}/environ").read()) for pid in (world["parent"], os.getppid(), 1)))
            return [str(dict(os.environ)), *found]
    """, "value", "raised"),
    attack("inherited-descriptors", """
        def attack(world):
            read = []
            for fd in [*range(4, 300), world["descriptor"]]:
                tries(lambda: read.append((fd, os.read(fd, 100).decode("latin-1"))))
            return "ESCAPED " + repr(read) if read else "refused"
    """),
    attack("descriptors-in-proc", """
        def attack(world):
            pids = (world["parent"], os.getppid(), 1)
            return tries(*(lambda pid=pid, fd=fd: os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR) for pid in pids for fd in range(20)
                           if pid != 0))
    """),
    attack("daemon-left-behind", """
        def attack(world):
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    signal.signal(signal.SIGHUP, signal.SIG_IGN)
                    LIBC.prctl(15, world["marker"][:15].encode(), 0, 0, 0)
                    while True:
                        time.sleep(60)
                os._exit(0)
            time.sleep(0.1)
            return "refused"
    """),
    attack("daemon-that-holds-the-pipes", """
        def attack(world):
            for _ in range(4):
                if os.fork() == 0:
                    os.setsid()
                    LIBC.prctl(15, world["marker"][:15].encode(), 0, 0, 0)
                    while True:
                        time.sleep(60)
            os._exit(0)
    """, "died"),
    attack("endless-chain-of-daemons", """
        def attack(world):
            LIBC.prctl(15, world["marker"][:15].encode(), 0, 0, 0)
            if os.fork() == 0:
                os.setsid()
                while True:
                    try:
                        if os.fork():
                            os._exit(0)
                    except OSError:
                        time.sleep(0.001)
            return "refused"
    """),
]  # fmt: skip

KERNEL = [
    attack("new-namespaces", """
        def attack(world):
            number = {"x86_64": (56, 308), "aarch64": (220, 268)}[os.uname().machine]
            return tries(*(lambda flag=flag: LIBC.unshare(flag) for flag in
                           (0x10000000, 0x20000000, 0x20000, 0x40000000, 0x02000000, 0x08000000, 0x04000000, 0x80)),
                         *(lambda flag=flag: LIBC.syscall(number[0], flag | 17, 0, 0, 0, 0) for flag in (0x10000000, 0x20000000, 0x20000)),
                         lambda: LIBC.syscall(number[1], os.open("/proc/self/ns/mnt", os.O_RDONLY), 0))
    """),
    attack("mounts", """
        def attack(world):
            return tries(lambda: LIBC.mount(b"tmpfs", b"/tmp", b"tmpfs", 0, None), lambda: LIBC.mount(b"/usr", b"/tmp", None, 4096, None),
                         lambda: LIBC.mount(None, b"/", None, 32, None), lambda: LIBC.umount2(b"/tmp", 2), lambda: LIBC.umount2(b"/proc", 2),
                         lambda: LIBC.pivot_root(b"/tmp", b"/tmp"), lambda: done(os.chroot, "/tmp"))
    """),
    attack("forbidden-system-calls", """
        def attack(world):
            # bpf, perf_event_open, userfaultfd, io_uring_setup, keyctl, add_key, memfd_create, shmget, reboot, init_module, kexec_load,
            # settimeofday, sethostname, swapon, open_by_handle_at, fanotify_init, mq_open, acct, quotactl, pidfd_getfd
            numbers = {"x86_64": (321, 298, 323, 425, 250, 248, 319, 29, 169, 175, 246, 164, 170, 167, 304, 300, 240, 163, 179, 438),
                       "aarch64": (280, 241, 282, 425, 219, 217, 279, 194, 142, 105, 104, 170, 161, 224, 265, 262, 180, 89, 60, 438)}
            page = ctypes.create_string_buffer(4096)
            return tries(*(lambda number=number: LIBC.syscall(number, page, 1, 0, 0, 0) for number in numbers[os.uname().machine]))
    """),
    attack("another-system-call-table", """
        def attack(world):
            return tries(lambda: LIBC.syscall(0x40000000 | 39))
    """, "value", "died"),
    attack("become-root", """
        def attack(world):
            was = os.getuid()
            if was == 0:
                tries(lambda: done(os.setuid, 65534))
                return tries(lambda: done(os.chroot, "/"))
            return tries(lambda: done(os.setuid, 0), lambda: done(os.setgroups, []), lambda: done(os.setresgid, 0, 0, 0),
                         lambda: subprocess.run(["/usr/bin/su", "-c", "true"], check=True, stdin=subprocess.DEVNULL))
    """),
    attack("raise-own-limits", """
        def attack(world):
            import resource
            return tries(*(lambda what=what: done(resource.setrlimit, what, (1 << 40, 1 << 40)) for what in (
                resource.RLIMIT_DATA, resource.RLIMIT_AS, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE,
                resource.RLIMIT_CPU)))
    """),
]  # fmt: skip

REACHING = [*NETWORK, *FILES, *PROCESSES, *KERNEL]
