package suite

import (
	"fmt"

	"github.com/ringfold/ringfold/conformance/wire"
	"github.com/ringfold/ringfold/internal/workload"
)

var sizeScenarios = []entry{
	{"conservation/sizes-0-to-23", "sizesShort", sizesShort},
	{"conservation/sizes-24-to-300", "sizes", sizes(16, steps(24, 300, 1))},
	{"conservation/sizes-to-32-KiB", "sizes", sizes(32, around(512, 1024, 2048, 4096, 8192, 16384, 32768))},
	{"conservation/sizes-to-64-KiB", "sizes", sizes(64, around(40000, 65000, 65480))},
	{"conservation/wrap-small", "wrap", wrap(1, 24, 32)},
	{"conservation/wrap-middle", "wrap", wrap(1, 496, 504)},
	{"conservation/wrap-large", "wrap", wrap(4, 3000, 3008)},
	{"conservation/larger-than-the-ring", "largerThanRing", largerThanRing},
}

func steps(from, to, step int) (list []int) {
	for n := from; n <= to; n += step {
		list = append(list, n)
	}
	return list
}

func around(sizes ...int) (list []int) {
	for _, n := range sizes {
		list = append(list, steps(n-9, n+9, 1)...)
	}
	return list
}

// sizesShort: Events of 0 to 23 bytes are delivered.
//
// Expected: an event without a payload is an event, too: it says that something happened.
//
// Kernel: the payload of a record, with its length field of 4 bytes, is padded to a multiple of 8. Output of 0 bytes has 4 bytes
// of padding; the true length is not recorded.
//
// Set-up: events of each of these sizes on one CPU, 20 times.
//
// Check: each has the length that was output, or the padded one, and begins with its number as far as it fits.
func sizesShort(t *T) {
	source := t.Perf()
	s := t.Launch([]*Source{source}, "pages=16")
	s.With(func(st *State) { st.keep = true })
	s.awaitReady()
	var want []int
	for range 20 {
		for size := range workload.HeaderSize {
			t.Output(source, t.CPUs()[0], 1, size)
			want = append(want, size)
		}
		s.Until(fmt.Sprintf("%d events are delivered", len(want)), func(st *State) bool { return st.Events >= len(want) })
	}
	s.With(func(st *State) {
		for i, item := range st.Items {
			if item.Type != wire.Event || i >= len(want) {
				t.Failf("more than was output: %+v", item)
			}
			if err := workload.CheckShort(item.Data, uint64(i), want[i]); err != nil {
				t.Failf("%v", err)
			}
		}
	})
}

// sizes: Events of all sizes that fit a record are delivered as they were output.
//
// Expected: sizes are the program's affair.
//
// Kernel: perf_event_header.size is 16 bits. Payloads up to 65,507 bytes fit a record with PERF_SAMPLE_RAW and a time.
//
// Set-up: one event of each size on each CPU, each delivered before the next: 24 to 300 bytes, around powers of two, and up to 65,489.
//
// Check: each byte.
func sizes(pages int, list []int) func(*T) {
	return func(t *T) {
		source, s := t.StartPerf(fmt.Sprintf("pages=%d", pages))
		cpus := t.some()
		for i, size := range list {
			t.Output(source, cpus[i%len(cpus)], 1, size)
			if i%4 == 3 || size > 2000 {
				s.Settle()
			}
		}
		s.Settle()
		s.Account()
	}
}

// wrap: A record over the ring's end is delivered whole, wherever it is cut.
//
// Expected: nobody notices that rings have an end.
//
// Kernel: records begin at multiples of 8 and go on at the ring's beginning when they reach its end; header, length field and payload
// may be cut at any multiple of 8.
//
// Set-up: 1,100 events on one CPU, of two sizes that differ by 8, in portions that fit the ring. The length of a record of one of them
// is an odd multiple of 8, so that within 512 of them per page one begins at each multiple of 8 before the end.
//
// Check: each byte.
func wrap(pages int, sizes ...int) func(*T) {
	return func(t *T) {
		source := t.Perf()
		cpu := t.CPUs()[0]
		s := t.Start(source, fmt.Sprintf("pages=%d", pages))
		for _, size := range sizes {
			portion := max(1, pages*4096*9/10/(size+48))
			for n := 0; n < 550*pages; n += portion {
				t.Output(source, cpu, portion, size)
				s.Settle()
			}
		}
		s.report()
		s.Account()
	}
}

// largerThanRing: An event that is larger than the ring is counted as lost, and nothing else suffers.
//
// Expected: the user learns that events do not fit; all others are delivered.
//
// Kernel: __perf_output_begin finds no room: -ENOSPC, and a loss.
//
// Set-up: rings of one page. Small events, one of 5,000 bytes, small events.
//
// Check: attempted = delivered + lost.
//
// Known: to a user who reads only events, the reader seems to hang: cilium/ebpf#559.
func largerThanRing(t *T) {
	source, s := t.StartPerf("pages=1")
	for range 5 {
		for _, cpu := range t.some() {
			t.Output(source, cpu, 3, 64)
			t.Output(source, cpu, 1, 5000)
			t.Output(source, cpu, 3, 64)
		}
		s.Settle()
	}
	s.Account()
}
