"""Escapes by system calls that no shell makes. argv: names of the functions below; a refused escape raises OSError."""

import ctypes
import errno
import fcntl
import os
import resource
import signal
import socket
import struct
import sys

libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
OUT, TERMINAL = os.environ["OUT"], os.environ["TERMINAL"]
VICTIM, WORKER = int(os.environ["VICTIM"]), int(os.environ["PID"])
SEGMENT, SEMAPHORE, MESSAGES = (int(os.environ[name]) for name in ("SEGMENT", "SEMAPHORE", "MESSAGES"))
SECRET_AT = int(os.environ["SECRET_AT"])
COLUMN = {"x86_64": 0, "aarch64": 1}[os.uname().machine]
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
# Errors for a target out of reach, as opposed to a target that is reached and used wrongly.
HELD = {errno.EPERM, errno.EACCES, errno.ESRCH, errno.ENOENT, errno.EROFS, errno.ECONNREFUSED, errno.EIDRM}


def call(numbers, *arguments):
    arguments = [ctypes.c_long(it) if isinstance(it, int) else it for it in arguments]
    return answered(libc.syscall(ctypes.c_long(numbers[COLUMN]), *arguments))


def answered(answer):
    code = ctypes.get_errno()
    if answer == -1 and code in HELD | {errno.EBADF}:
        raise OSError(code, os.strerror(code))
    return answer


def pidfd():
    return os.pidfd_open(VICTIM)


def area(address, size=8):
    return struct.pack("PN", address, size)


def victim_limits():
    resource.prlimit(VICTIM, resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))


def worker_limits():
    resource.prlimit(WORKER, resource.RLIMIT_CORE, resource.prlimit(WORKER, resource.RLIMIT_CORE))


def victim_affinity():
    os.sched_setaffinity(VICTIM, {0})


def victim_scheduler():
    os.sched_setscheduler(VICTIM, os.SCHED_BATCH, os.sched_param(0))


def victim_scheduling_parameters():
    os.sched_setparam(VICTIM, os.sched_param(0))


def victim_scheduling_attributes():
    attributes = struct.pack("IIQiIQQQ", 48, os.SCHED_BATCH, 0, 3, 0, 0, 0, 0)
    call((314, 274), VICTIM, attributes, 0)


def victim_priority():
    os.setpriority(os.PRIO_PROCESS, VICTIM, 5)


def victim_io_priority():
    call((251, 30), 1, VICTIM, 3 << 13)


def victim_memory_reclaim():
    call((440, 440), pidfd(), area(SECRET_AT & ~4095, 4096), 1, 20, 0)


def victim_memory_read():
    into = ctypes.create_string_buffer(8)
    call((310, 270), VICTIM, area(ctypes.addressof(into)), 1, area(SECRET_AT), 1, 0)


def victim_memory_write():
    words = ctypes.create_string_buffer(b"overwritten")
    call((311, 271), VICTIM, area(ctypes.addressof(words)), 1, area(SECRET_AT), 1, 0)


def victim_memory_file():
    os.open(f"/proc/{VICTIM}/mem", os.O_RDWR)


def victim_pages_moved():
    call((279, 239), VICTIM, 1, struct.pack("P", SECRET_AT), 0, ctypes.create_string_buffer(4), 2)


def victim_pages_migrated():
    call((256, 238), VICTIM, 64, struct.pack("N", 1), struct.pack("N", 1))


def victim_robust_list():
    call((274, 100), VICTIM, ctypes.create_string_buffer(8), ctypes.create_string_buffer(8))


def victim_compared():
    call((312, 272), VICTIM, os.getpid(), 1, 0, 0)


def victim_traced():
    call((101, 117), 0x4206, VICTIM, 0, 0)


def victim_descriptor():
    call((438, 438), pidfd(), 0, 0)


def victim_descriptor_file():
    os.stat(f"/proc/{VICTIM}/fd/0")


def victim_signal():
    os.kill(VICTIM, signal.SIGUSR1)


def victim_thread_signal():
    call((234, 131), VICTIM, VICTIM, signal.SIGUSR1)


def victim_queued_signal():
    information = struct.pack("iii", signal.SIGUSR1, 0, -1).ljust(128, b"\0")
    call((129, 138), VICTIM, signal.SIGUSR1, information)


def victim_descriptor_signal():
    signal.pidfd_send_signal(pidfd(), signal.SIGUSR1)


def victim_signal_by_pipe():
    reader, writer = os.pipe()
    fcntl.fcntl(reader, fcntl.F_SETOWN, VICTIM)
    fcntl.fcntl(reader, 10, signal.SIGUSR1)
    fcntl.fcntl(reader, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    os.write(writer, b"x")
    raise OSError("the victim reports whether it arrived")


def victim_namespaces():
    call((308, 268), pidfd(), 0x04000000)


def victim_namespace_file():
    os.open(f"/proc/{VICTIM}/ns/mnt", os.O_RDONLY)


def victim_out_of_memory():
    with open(f"/proc/{VICTIM}/oom_score_adj", "w") as file:
        file.write("500")


def victim_watched():
    attributes = struct.pack("IIQ", 1, 128, 1).ljust(128, b"\0")
    call((298, 241), attributes, VICTIM, -1, -1, 0)


def ring():
    call((425, 425), 1, ctypes.create_string_buffer(120))


def keyring():
    call((250, 219), 0, -4, 0)


def kernel_program():
    call((321, 280), 0, ctypes.create_string_buffer(64), 64)


def page_faults():
    call((323, 282), 0)


def file_by_handle():
    handle, mount = ctypes.create_string_buffer(struct.pack("Ii", 128, 0), 136), ctypes.c_int()
    call((303, 264), -100, f"{OUT}/secret".encode(), handle, ctypes.byref(mount), 0)
    call((304, 265), os.open(".", os.O_RDONLY), handle, os.O_RDONLY)


def file_by_handle_inside():
    handle, mount = ctypes.create_string_buffer(struct.pack("Ii", 128, 0), 136), ctypes.c_int()
    call((303, 264), -100, b".", handle, ctypes.byref(mount), 0)
    call((304, 265), os.open(".", os.O_RDONLY), handle, os.O_RDONLY)


def shared_segment():
    answered(-1 if libc.shmat(SEGMENT, 0, 0) == ctypes.c_void_p(-1).value and missing() else 0)


def missing():
    if ctypes.get_errno() == errno.EINVAL:
        ctypes.set_errno(errno.ENOENT)
    return True


def semaphore():
    answered(-1 if libc.semctl(SEMAPHORE, 0, 16, 7) == -1 and missing() else 0)


def messages():
    sent = struct.pack("l", 1) + b"x"
    answered(-1 if libc.msgsnd(MESSAGES, sent, 1, 0) == -1 and missing() else 0)


def message_queue():
    answered(libc.mq_open(os.environ["QUEUE"].encode(), os.O_RDWR))


def message_queue_removed():
    answered(libc.mq_unlink(os.environ["QUEUE"].encode()))


def path_socket():
    socket.socket(socket.AF_UNIX).connect(f"{OUT}/socket")


def abstract_socket():
    socket.socket(socket.AF_UNIX).connect(f"\0ralph-victim-{VICTIM}")


def mode():
    os.chmod(f"{OUT}/secret", 0o777)


def folder_mode():
    os.chmod(OUT, 0o777)


def owner():
    os.chown(f"{OUT}/secret", -1, os.getgid())


def times():
    os.utime(f"{OUT}/secret", (1, 1))


def attribute():
    os.setxattr(f"{OUT}/secret", "user.ralph", b"x")


def attribute_read():
    os.listxattr(f"{OUT}/secret")


def name_known():
    os.stat(f"{OUT}/secret")


def link_read():
    os.readlink(f"{OUT}/link")


def folder_entered():
    here = os.open(".", os.O_RDONLY)
    os.chdir(OUT)
    os.fchdir(here)


def folder_watched():
    answered(libc.inotify_add_watch(libc.inotify_init(), OUT.encode(), 0x100))


def mode_of_a_tool():
    os.chmod("/usr/bin/env", os.stat("/usr/bin/env").st_mode & 0o7777)


def terminal_typed_into():
    fcntl.ioctl(os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY), TIOCSTI, b"x")


def asked_of_its_own(request, words):
    # Close both ends: a terminal of the session may have the same name as a person's.
    ends = os.openpty()
    try:
        fcntl.ioctl(ends[1], request, words)
    except OSError as error:
        if error.errno in HELD:
            raise
    finally:
        for end in ends:
            os.close(end)


def typed_into_its_own():
    asked_of_its_own(TIOCSTI, b"x")


def console():
    asked_of_its_own(TIOCLINUX, b"\x03")


def terminal_owned():
    os.chmod(TERMINAL, 0o666)


def mounted():
    os.makedirs("mounted", exist_ok=True)
    answered(libc.mount(OUT.encode(), b"mounted", None, 4096, None))
    answered(libc.umount2(b"mounted", 2))


def mounted_as_another():
    child = os.fork()
    if child == 0:
        try:
            answered(libc.unshare(0x10020000))
            mounted()
        except OSError:
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        raise OSError("the child was held")


for name in sys.argv[1:]:
    try:
        globals()[name.replace("-", "_")]()
        print("escaped", name)
    except OSError:
        print("held", name)
