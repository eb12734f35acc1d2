package perfbuf

import "github.com/ringfold/ringfold/internal/grace"

// Barriers is a set of ways to wait, in exact mode, until no older event can come. A stream
// considers those that its [StreamOptions] allow and that work on this machine for this user. It
// uses NestLevels if that suffices, else the faster of BindMount and MapInMap, else Membarrier. If
// one stops working, because the process drops privileges or enters a sandbox, the next takes over.
//
// If you must not interrupt isolated, nohz_full or real-time CPUs, allow MapInMap (before Linux
// 6.19), Membarrier and NestLevels, but not BindMount.
type Barriers uint8

const (
	// NestLevels reads how many outputs are nested on each CPU, until it has seen each CPU in none.
	// It interrupts no CPU. It is for the kernel's times: streams with PayloadTime, and Drain,
	// Shutdown and Close, wait in another way.
	NestLevels = Barriers(grace.NestLevels)
	// BindMount asks for a bind mount that the kernel must refuse, of a directory on a file. The
	// kernel makes a copy of a mount first, and waits an expedited RCU grace period when it
	// dissolves that: tens of microseconds, and an interrupt of each CPU that is busy. It needs
	// CAP_SYS_ADMIN. No documentation promises that this call waits, so the first stream of a
	// process proves it, with a BPF program that runs meanwhile: some 10 ms, and up to 0.4 s on a
	// busy machine. That takes a second CPU for a moment, also of a process that taskset confines
	// to one. If a cpuset does, or if the machine is too busy, nothing is proved and streams wait
	// in another way; one made 8 s later tries again. Audit logs show each call as a mount(2) that
	// failed with ENOTDIR.
	BindMount = Barriers(grace.BindMount)
	// MapInMap updates a map in a map, for which the kernel promises to wait
	// (maybe_wait_bpf_programs): 8 to 16 ms before Linux 6.19, an expedited grace period since
	// then. It needs CAP_BPF.
	MapInMap = Barriers(grace.MapInMap)
	// Membarrier calls membarrier(MEMBARRIER_CMD_GLOBAL), which waits a grace period of 8 to 16 ms.
	// It needs no capability, but two CPUs online, and none that is nohz_full.
	Membarrier = Barriers(grace.Membarrier)

	allBarriers = Barriers(grace.All)
)

// String returns the names as they are in BarrierStats, such as "bind-mount|map-in-map".
func (b Barriers) String() string { return grace.Set(b).String() }
