// Package perfdata records events to perf.data, the file format of Linux's perf, and replays them.
//
// A [Recorder] writes the events of a [perfbuf.Reader] or a [perfbuf.Stream]. `perf script`, `perf
// report -D` and other programs that know perf.data read the file. [Open] returns a
// [perfbuf.Reader] of the recording. So your program handles recorded events without any change, on
// any system, without root and without BPF.
//
//	rec, err := perfdata.Create("events.perf.data", perfdata.Options{})
//	...
//	err = rec.Run(ctx, stream) // until ctx is done
//	err = stream.Drain(context.Background(), rec.Record)
//	err = rec.Close()
//
//	reader, err := perfdata.Open("events.perf.data", perfdata.ReplayOptions{})
//	...
//	stream, err := reader.Stream(perfbuf.StreamOptions{})
//	...
//	err = stream.Run(ctx, handle) // io.EOF at the end
//
// # What is in a file
//
// Each sample is a PERF_RECORD_SAMPLE of a software event, PERF_COUNT_SW_BPF_OUTPUT, with an id,
// the time in ns of CLOCK_MONOTONIC, the CPU, and the payload as raw data. These are 24 bytes more
// than in a ring. A loss is a PERF_RECORD_LOST. PERF_RECORD_LOST_SAMPLES counts samples that are
// too large for perf's format, of more than [MaxSample] bytes. What programs have counted as lost
// or shed is a PERF_RECORD_LOST too, with its [perfbuf.Event.LostAfter] and its lane behind the
// count, where perf reads nothing. Ring memory that could not be read is a sample of a second
// event, named corrupt: two u64, offset and bytes skipped, and the reason as text. If the source is
// an exact stream, a PERF_RECORD_FINISHED_ROUND follows each pass: everything later in the file is
// later in time, which perf otherwise guesses. With [Options].Compress, all of this is inside
// PERF_RECORD_COMPRESSED.
//
// # Crashes
//
// The header always says how far the file is written. A killed process leaves a file that perf and
// [Open] read up to the last [Recorder.Flush]; [Recorder.Run] flushes after each pass. Such a file
// lacks what Close writes at the end: the host, the BTF.
package perfdata
