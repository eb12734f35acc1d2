// Package perfevent is the real kernel's side of a perf event array: it sets rings up through libbpf, stores perf events in
// the map, follows CPUs that come and go, waits for wakeups, and explains what the kernel refuses.
package perfevent
