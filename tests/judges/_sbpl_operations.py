"""Operation names of the Seatbelt language and what each falls back to, as data."""

from __future__ import annotations

# Operation -> the operations that fall back to it. Names: macOS 14, with older ones that tools still use.
# Parents: the table of macOS 10.15; for younger names, the wildcard of their family.
CHILDREN: dict[str, str] = {
    "default": "appleevent-send authorization-right-obtain boot-arg-set device* distributed-notification-post"
    " file* fs-quota* fs-rename fs-snapshot* generic-issue-extension qtn-user hid-control iokit* ipc*"
    " load-unsigned-code lsopen mach* network* opendirectory-user-modify process* pseudo-tty signal"
    " sysctl* system* user-preference* necp-client-open socket-option* xpc-message-send"
    " default-message-filter",
    "device*": "device-camera device-microphone",
    "file*": "file-chroot file-ioctl file-issue-extension file-lock file-mknod file-mount file-read*"
    " file-revoke file-search file-unmount file-write*",
    "file-mount": "file-mount-update",
    "file-read*": "file-read-data file-read-metadata file-read-xattr",
    "file-write*": "file-write-acl file-write-create file-write-data file-write-finderinfo file-write-flags"
    " file-write-mode file-write-owner file-write-times file-write-unlink file-write-xattr",
    "fs-quota*": "fs-quota-get fs-quota-on fs-quota-off fs-quota-set* fs-quota-stat fs-quota-sync",
    "fs-quota-set*": "fs-quota-set-limits fs-quota-set-usage",
    "fs-snapshot*": "fs-snapshot-create fs-snapshot-delete fs-snapshot-mount fs-snapshot-revert",
    "iokit*": "iokit-issue-extension iokit-open* iokit-set-properties iokit-async-external-method"
    " iokit-external-method iokit-external-trap",
    "iokit-open*": "iokit-open-user-client iokit-open-service",
    "ipc*": "ipc-posix* ipc-sysv*",
    "ipc-posix*": "ipc-posix-issue-extension ipc-posix-sem* ipc-posix-shm*",
    "ipc-posix-sem*": "ipc-posix-sem-create ipc-posix-sem-open ipc-posix-sem-post ipc-posix-sem-unlink"
    " ipc-posix-sem-wait",
    "ipc-posix-shm*": "ipc-posix-shm-read-data ipc-posix-shm-write*",
    "ipc-posix-shm-write*": "ipc-posix-shm-write-create ipc-posix-shm-write-data ipc-posix-shm-write-unlink",
    "ipc-sysv*": "ipc-sysv-msg ipc-sysv-sem ipc-sysv-shm",
    "mach*": "mach-bootstrap mach-derive-port mach-host* mach-issue-extension mach-kernel-endpoint"
    " mach-lookup mach-priv* mach-register mach-task* mach-message-send",
    "mach-host*": "mach-host-exception-port-set mach-host-special-port-set",
    "mach-lookup": "mach-per-user-lookup",
    "mach-priv*": "mach-priv-host-port mach-priv-task-port",
    "mach-task*": "mach-task-inspect mach-task-name mach-task-read mach-task-special-port*",
    "mach-task-special-port*": "mach-task-special-port-get mach-task-special-port-set",
    "network*": "network-inbound network-outbound",
    "network-inbound": "network-bind",
    "nvram*": "nvram-delete nvram-get nvram-set",
    "process*": "process-codesigning process-codesigning-status* process-exec* process-fork"
    " process-legacy-codesigning*",
    "process-codesigning-status*": "process-codesigning-status-set process-codesigning-status-get",
    "process-exec*": "process-exec-interpreter process-exec-update-label",
    "process-info*": "process-info-dirtycontrol process-info-ledger process-info-listpids process-info-rusage"
    " process-info-pidinfo process-info-pidfdinfo process-info-pidfileportinfo process-info-setcontrol",
    "socket-option*": "socket-option-get socket-option-set",
    "sysctl*": "sysctl-read sysctl-write",
    "system*": "system-acct system-audit system-automount system-debug system-fcntl system-fsctl system-info"
    " system-kas-info system-kext* system-mac* system-memorystatus-control system-necp-client-action"
    " system-nfssvc system-package-check system-reboot system-sched system-set-time system-socket"
    " system-suspend-resume system-swap",
    "system-kext*": "system-kext-load system-kext-unload system-kext-query",
    "system-mac*": "system-mac-label system-mac-syscall",
    "user-preference*": "user-preference-read user-preference-write",
    "user-preference-read": "managed-preference-read",
}
# Roots of their own: no rule on file* or default reaches them, and without a rule they are ALLOWED.
_OWN_ROOTS = (
    "darwin-notification-post dynamic-code-generation file-clone file-link file-map-executable"
    " file-test-existence file-write-setugid iokit-get-properties job-creation mach-cross-domain-lookup"
    " nvram* process-info* process-info-codesignature socket-ioctl storage-class-map syscall* syscall-mach"
    " syscall-mig syscall-unix system-privilege"
)
OWN_ROOTS = frozenset(_OWN_ROOTS.split())
FALLBACK: dict[str, str] = {child: parent for parent, names in CHILDREN.items() for child in names.split()}
ALIASES = {
    "process-exec": "process-exec*",
    "ipc-posix-sem": "ipc-posix-sem*",
    "ipc-posix-shm": "ipc-posix-shm*",
    "iokit-open": "iokit-open*",
}
OPERATIONS = frozenset(FALLBACK) | OWN_ROOTS | {"default"}


def chain(operation: str) -> tuple[str, ...]:
    """The operation and what it falls back to, leaf first; ends at ``default`` or at a root of its own."""
    names = [ALIASES.get(operation, operation)]
    if names[0] not in OPERATIONS:
        raise ValueError(f"unknown operation {operation!r}")
    while names[-1] in FALLBACK:
        names.append(FALLBACK[names[-1]])
    return tuple(names)
