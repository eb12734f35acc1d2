package perfdata

import (
	"errors"
	"io"
)

// blocks reads a file in large pieces and keeps a few: records close in time lie close together.
type blocks struct {
	f    io.ReaderAt
	size int64
	kept [keptBlocks]block
}

type block struct {
	start int64 // -1 is none; b is nil then
	b     []byte
}

const (
	blockSize  = 1 << 20
	keptBlocks = 16
)

// at returns the file from an offset on: a whole record at least, unless it is cut. The slice is
// valid until the next call.
func (c *blocks) at(off int64) ([]byte, error) {
	if off < 0 || off >= c.size {
		return nil, nil
	}
	start := off &^ (blockSize - 1)
	k := &c.kept[start/blockSize%keptBlocks]
	if k.b == nil || k.start != start {
		// records that begin in the block end in it
		n := int(min(blockSize+1<<16, c.size-start))
		if cap(k.b) < n {
			k.b = make([]byte, n)
		}
		k.start, k.b = start, k.b[:n]
		if got, err := c.f.ReadAt(k.b, start); got < n {
			k.b = nil
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF // it has become shorter
			}
			return nil, err
		}
	}
	return k.b[off-start:], nil
}
