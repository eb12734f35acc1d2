# Lets them run on x86 without kprobes and fentry, by a tracepoint of system calls: 9 is mmap, 257 openat.
s,^SEC("\(kprobe/\|fentry/__x64_\)sys_[a-z]*"),SEC("tp_btf/sys_enter"),
/^int [a-z_]*mmap[a-z_]*(/,/^{/s/^{/&\n    if (((u64 *) ctx)[1] != 9)\n        return 0;/
/^int openat_fentry(/,/^{/s/^{/&\n    if (((u64 *) ctx)[1] != 257)\n        return 0;/
s/^.*prog\.AttachKprobe(funcName)/	_ = funcName\n&/
s/prog\.AttachKprobe(funcName)/prog.AttachGeneric()/
