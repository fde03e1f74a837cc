"""Table of attacks: allowed verdicts and limits of each hostile program; the folder of a program is its class."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from marft_envs.sandbox.judge_data import Limits, Verdict

PROGRAMS = Path(__file__).parent / "programs"
PROBES = PROGRAMS / "probes"  # harmless programs of the harness
_PATHS = {path.name: path for path in PROGRAMS.glob("*/*.*") if path.parent != PROBES}
LANGUAGES = {".py": "python", ".cpp": "c++"}

# Small limits keep the whole suite at about a minute on two cores.
USUAL = Limits(cpu_s=1.0, wall_s=6.0, memory_mb=128, output_mb=1.0)
BRIEF = Limits(cpu_s=0.15, wall_s=6.0, memory_mb=128, output_mb=1.0)
BUSY = Limits(cpu_s=0.3, wall_s=6.0, memory_mb=128, output_mb=1.0)
IDLE = Limits(cpu_s=1.0, wall_s=0.45, memory_mb=128, output_mb=1.0)
SMALL = Limits(cpu_s=2.0, wall_s=8.0, memory_mb=64, output_mb=1.0)


@dataclass(frozen=True)
class Attack:
    """One hostile program of the suite.

    Attributes:
        name: File name of the program, unique in all folders of `programs`; the suffix gives the language.
        allowed: Verdicts that a judge may give.
        limits: Limits of its tests.
        tests: Number of runs. The input holds the index of the run, so a program can look for remains of the first
            run, or try something else in each.
        answers: True if it prints the correct answer, so that only its other actions decide.
        slow: True if it uses up the compiler's time limit of about 20 s.
        open_on: Backends that cannot hold it, as documented; it is left out there.
    """

    name: str
    allowed: tuple[Verdict, ...]
    limits: Limits = USUAL
    tests: int = 1
    answers: bool = False
    slow: bool = False
    open_on: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """Path of the program, `programs/CLASS/NAME`."""
        return _PATHS[self.name]

    @property
    def klass(self) -> str:
        """Class of the attack, such as "processes" or "memory": the name of its folder."""
        return self.path.parent.name

    @property
    def language(self) -> str:
        """Language name as the judge knows it."""
        return LANGUAGES[self.path.suffix]

    @property
    def goal(self) -> str:
        """Goal of the attack: the first line of its source."""
        with self.path.open() as file:
            return file.readline().strip().strip('"').removeprefix("// ").removeprefix("# ")

    def source(self, canary_file: str) -> str:
        """Return the source with `@CANARY@` (a secret file of the host) and `@REPEAT:N:TEXT@` expanded."""
        text = self.path.read_text().replace("@CANARY@", canary_file)
        return re.sub(r"@REPEAT:(\d+):(.*?)@", lambda match: match[2] * int(match[1]), text, flags=re.DOTALL)


def _group(
    verdicts: str,
    names: str,
    limits: Limits = USUAL,
    tests: int = 1,
    answers: bool = False,
    slow: bool = False,
    open_on: tuple[str, ...] = (),
) -> Iterator[Attack]:
    allowed = tuple(Verdict(word) for word in verdicts.split())
    for name in names.split():
        yield Attack(name, allowed, limits, tests, answers, slow, open_on)


CATALOGUE: tuple[Attack, ...] = (
    # processes
    *_group("RE", "fork_bomb.py shell_background.py multiprocessing_pool.py"),
    *_group("WA", "subprocess_spawn.py daemon_double_fork.py clone_variants.cpp undo_filter.cpp"),
    *_group("WA RE", "thread_bomb.py thread_bomb.cpp"),
    *_group("TLE", "fork_bomb.cpp exec_chain.cpp", BUSY),
    # time
    *_group("TLE", "busy_loop.py bigint_bomb.py regex_bomb.py busy_loop.cpp syscall_burn.cpp", BUSY),
    *_group("TLE", "catch_sigxcpu.cpp threads_burn.cpp hidden_burner.cpp", BUSY),
    *_group("ILE", "sleep.py sigstop_self.py ignore_signals.py deadlock.cpp blocked_read.cpp", IDLE),
    *_group("ILE", "write_after_exit.cpp", IDLE),
    *_group("ILE", "right_then_sleep.py right_then_thread.py", IDLE, answers=True),
    *_group("WA", "timer_flood.cpp priority.cpp affinity.cpp"),
    *_group("WA SV", "clock_games.cpp", tests=4),
    # memory
    *_group("MLE", "memory_bytearray.py memory_objects.py huge_stack_array.cpp", SMALL),
    *_group("MLE", "memory_new.cpp memory_mmap.cpp stack_recursion.cpp", SMALL),
    # CPython reports some failed allocations as a SystemError. A program too large to start has used no memory yet.
    *_group("MLE RE", "memory_recursion.py giant_bss.cpp", SMALL),
    *_group("WA", "memory_shared.cpp memory_memfd.cpp memory_pipes.cpp memory_reserve.cpp", SMALL),
    *_group("WA", "memory_lock.cpp memory_unmapped.cpp socket_buffers.cpp pinned_pages.cpp", SMALL),
    *_group("WA", "huge_pages.cpp", SMALL),
    *_group("MLE", "page_tables.cpp", SMALL),
    # output
    *_group("OLE", "stdout_flood.py stdout_flood.cpp stdout_far_away.cpp stderr_flood.cpp stderr_flood.py"),
    *_group("WA", "token_flood.py binary_output.py terminal_escapes.py unread_stdin.py"),
    *_group("WA", "stdout_seal.cpp", tests=2),
    *_group("RE", "binary_stderr.py"),
    *_group("OK", "stdout_truncated.cpp", answers=True),
    # files
    *_group("WA", "disk_fill.py inode_bomb.py links.py overwrite_self.py pycache_poison.py file_locks.py"),
    *_group("WA", "smuggle_files.py", tests=2),
    *_group("WA", "devices.py kernel_settings.py kernel_tuning.py"),
    *_group("WA SV", "mount.cpp", tests=7),
    *_group("WA SV", "namespaces.cpp", tests=13),
    *_group("WA SV", "chroot_escape.cpp", tests=3),
    *_group("WA SV", "open_by_handle.cpp", tests=2),
    # secrets
    *_group("WA", "env_secrets.py host_files.py search_files.py other_programs.py frame_walk.py"),
    *_group("WA", "proc_runner_memory.py proc_runner_fds.py proc_walk.py proc_self_mem.py"),
    *_group("WA", "kernel_addresses.py mount_paths.py"),
    *_group("WA SV", "ptrace.cpp process_vm.cpp", tests=2),
    *_group("WA SV", "pidfd_steal.cpp", tests=4),
    # judge
    *_group("WA", "forge_frames.py forge_frames.cpp stdin_beyond.py inherited_descriptors.cpp"),
    *_group("WA", "kill_everyone.py kill_runner.cpp sigio_runner.cpp prlimit_runner.cpp pty_games.py"),
    *_group("WA", "closed_descriptors.py peak_memory.cpp"),
    # cheating
    *_group("WA", "exit_before_tests.py before_main.cpp always_equal.py monkeypatch_judge.py"),
    *_group("RE", "fake_stdout.py"),
    *_group("RE", "right_then_exit_1.py right_then_atexit.py right_then_segfault.cpp", answers=True),
    *_group("RE", "kill_itself.cpp", answers=True),
    *_group("WA", "right_then_nul.cpp", answers=True),
    *_group("OK", "right_closed_stdout.py", answers=True),
    # network
    *_group("WA", "tcp_loopback.py metadata_address.py unix_sockets.py odd_sockets.cpp"),
    # kernel
    *_group("WA", "sysv_ipc.cpp posix_mq.cpp", tests=2),
    *_group("WA", "io_uring.cpp x32_calls.cpp personality.cpp"),
    *_group("WA SV", "bpf_perf.cpp", tests=2),
    *_group("WA SV", "keyrings.cpp", tests=4),
    *_group("WA SV", "kernel_surface.cpp", tests=13),
    *_group("WA", "become_root.cpp setuid_binaries.py rlimit_raise.cpp"),
    *_group("SV", "i386_calls.cpp"),
    *_group("RE", "core_dump.cpp bad_interpreter.cpp"),
    # channels
    *_group("WA", "page_cache.cpp machine_state.cpp ask_about_others.cpp unread_files.py last_read.py"),
    *_group("WA", "names_looked_up.cpp", open_on=("landlock",)),
    # compiler
    *_group("CE", "include_device.cpp include_zero.cpp include_host_file.cpp include_itself.cpp"),
    *_group("CE", "incbin_host_file.cpp assembler_include.cpp pragma_options.cpp"),
    *_group("CE", "template_recursion.cpp constexpr_loop.cpp giant_array.cpp macro_bomb.cpp"),
    *_group("CE", "assembler_bomb.cpp coding_cookie.py unary_bomb.py parser_bomb.py"),
    *_group("CE", "compile_for_minutes.cpp", slow=True),
    *_group("CE WA", "include_probe.cpp nesting_bomb.cpp warning_flood.cpp"),
    *_group("WA", "output_path.cpp huge_source.py"),
    *_group("MLE", "constant_bomb.py"),
    # protocol
    *_group("OK", "stdout_flags.py stdout_chmod.py stdout_locked.cpp swap_descriptors.py", tests=2, answers=True),
    *_group("OK", "stdin_offset.py", tests=5, answers=True),
    *_group("WA", "stdin_rewrite.py", tests=2),
    *_group("WA", "answer_into_pipe.py answer_on_stderr.py stdout_sparse_tail.cpp", answers=True),
    *_group("WA", "wakeup_descriptor.py", answers=True),
    *_group("OK WA SV", "stdout_splice.cpp", tests=4, answers=True),
    *_group("OK WA", "stdout_race.cpp", answers=True),
    *_group("OLE", "stderr_far_away.cpp stdout_feeds_itself.cpp output_past_limit.py"),
    *_group("WA", "stdout_allocate.cpp frames_in_stdout.py output_at_limit.py"),
    # exit
    *_group("OK", "exit_256.cpp stop_signals.cpp exit_in_thread.cpp", answers=True),
    *_group("OK RE", "leader_fails.cpp", answers=True),
    *_group("RE", "every_signal.cpp", tests=24, answers=True),
    *_group("RE", "uncaught.cpp", tests=6, answers=True),
    *_group("RE", "faults.cpp", tests=8, answers=True),
    *_group("OK RE", "kill_group.cpp", answers=True),
    *_group("RE", "closed_before_flush.py faulthandler_later.py", answers=True),
    *_group("SV", "sigsys_handler.cpp", answers=True),
    # accounting
    *_group("TLE", "short_threads_burn.cpp signal_storm.cpp fault_storm.cpp name_like_a_table.cpp", BRIEF),
    *_group("TLE", "exec_from_thread.cpp", BRIEF),
    *_group("TLE", "cpu_of_the_dead.cpp tick_dodger.cpp", BRIEF, answers=True),
    *_group("WA MLE RE", "memory_kinds.cpp", SMALL, tests=9),
    *_group("MLE RE", "giant_thread_local.cpp", SMALL),
    *_group("WA", "descriptor_bomb.cpp map_bomb.cpp"),
    *_group("ILE", "own_session.cpp", IDLE),
    # state
    *_group("OK", "lower_limits.cpp lost_folder.py", tests=2, answers=True),
    *_group("WA", "inherited_state.cpp file_marks.py", tests=2),
    *_group("WA", "host_marks.py host_tags.py"),
    *_group("WA SV", "process_settings.cpp", tests=9),
    *_group("WA SV", "late_disk.cpp", tests=3),
    *_group("WA SV", "new_calls.cpp", tests=8),
    # zygote
    *_group("WA", "signal_zygote.py zygote_channel.py"),
    *_group("WA SV", "trace_zygote.py", tests=7),
    *_group("WA", "search_remains.py", tests=4),
    *_group("OK", "poison_interpreter.py leave_threads.py", tests=3, answers=True),
    *_group("WA RE", "be_a_zygote.py"),
    # building
    *_group("CE", "line_marker_leak.cpp assembler_tables.cpp embed_host_file.cpp assembler_recursion.cpp"),
    *_group("CE", "assembler_endless.cpp"),
    *_group("CE", "sequence_bomb.cpp", slow=True),
    *_group("CE WA", "compiler_waits.cpp"),
    *_group("CE RE", "interpreter_is_itself.cpp huge_alignment.cpp"),
    *_group("WA", "early_code.cpp large_product.cpp own_library.cpp told_by_macros.cpp warning_bomb.py"),
    *_group("CE", "slow_codec.py source_turned.py"),
    *_group("CE WA", "digits_bomb.py"),
    *_group("CE RE", "attribute_chain.py elif_bomb.py format_bomb.py"),
)


def find_attacks(names: list[str] | None = None) -> list[Attack]:
    """Return the attacks with the given names, or all of them.

    Raises:
        ValueError: Unknown name of an attack.
    """
    by_name = {attack.name: attack for attack in CATALOGUE}
    if unknown := set(names or ()) - set(by_name):
        raise ValueError(f"attacks: found {', '.join(sorted(unknown))}, wanted names of {PROGRAMS}")
    return list(CATALOGUE) if names is None else [by_name[name] for name in names]
