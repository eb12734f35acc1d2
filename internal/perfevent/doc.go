// Package perfevent implements a perf event array on the real kernel. It sets up rings through
// libbpf, stores perf events in the map, follows CPU hotplug, waits for wakeups, and explains
// refusals by the kernel.
package perfevent
