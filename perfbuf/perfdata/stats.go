package perfdata

// Stats are a recorder's counts.
type Stats struct {
	Samples uint64 // written
	Bytes   uint64 // written, headers included
	Lost    uint64 // outputs that the events of KindLost counted
	Shed    uint64 // the same of KindShed
	Corrupt uint64 // stretches of ring memory that could not be read
	// TooLarge counts samples of more than MaxSample bytes, which are not recorded; the file counts
	// them as lost.
	TooLarge uint64
	Files    uint64 // begun
}

// Stats returns the counts. It does not block, and may be called from anywhere at any time.
func (r *Recorder) Stats() Stats {
	return Stats{
		Samples: r.samples.Load(), Bytes: r.bytes.Load(), Lost: r.lost.Load(), Shed: r.shed.Load(), Corrupt: r.corrupt.Load(),
		TooLarge: r.tooLarge.Load(), Files: r.files.Load(),
	}
}
