// Package friend is how perfchan makes a perfbuf.Reader as libbpfgo would have it made. That is no option of perfbuf's API, as nobody
// else should want it: such rings have no times, and perf_buffer__new says nothing of which CPUs it has opened.
package friend

// OpenDefault is perfbuf.Open, given perfbuf.Options, of rings that perf_buffer__new sets up. What it returns besides the *perfbuf.Reader
// has its Stats know of the losses that no record has reported yet: from Linux 6.0 on, and of rings that nobody reads. Package perfbuf sets it.
var OpenDefault func(mapFD int, options any) (reader any, countUnreported func(), err error)
