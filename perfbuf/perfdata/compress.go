package perfdata

import "io"

// Compressor compresses a stream with zstd: *zstd.Encoder of github.com/klauspost/compress does.
type Compressor interface {
	io.Writer
	// Flush writes all that came so far, so that it can be decompressed.
	Flush() error
	// Reset begins another stream.
	Reset(to io.Writer)
}

// packer packs records into PERF_RECORD_COMPRESSED, as perf record -z does. Each holds a piece of
// the file's one zstd stream, without padding.
type packer struct {
	c       Compressor
	out     []byte
	last    int // where the record being filled begins
	in, all uint64
}

func (p *packer) begin() {
	p.out, p.in, p.all = p.out[:0], 0, 0
	p.c.Reset(p)
}

// pack returns the compressed form of records. It is valid until the next call.
func (p *packer) pack(records []byte) ([]byte, error) {
	p.out = p.out[:0]
	if _, err := p.c.Write(records); err != nil {
		return nil, err
	}
	err := p.c.Flush()
	p.in, p.all = p.in+uint64(len(records)), p.all+uint64(len(p.out))
	return p.out, err
}

// Write takes the compressed bytes.
func (p *packer) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		if len(p.out) == 0 || len(p.out)-p.last == mostRecord {
			p.last = len(p.out)
			p.out = append(p.out, make([]byte, 8)...)
		}
		k := min(len(b), mostRecord-(len(p.out)-p.last))
		p.out = append(p.out, b[:k]...)
		b = b[k:]
		putHeader(p.out[p.last:], typeCompressed, len(p.out)-p.last)
	}
	return n, nil
}

// feature is HEADER_COMPRESSED: version, PERF_COMP_ZSTD, level, ratio, and the most that a record
// decompresses to.
func (p *packer) feature(most int) (b []byte) {
	if p == nil {
		return nil
	}
	ratio := uint64(1)
	if p.all > 0 {
		ratio = max(1, p.in/p.all)
	}
	for _, v := range []uint64{0, 1, 1, ratio, uint64(most)} {
		b = native.AppendUint32(b, uint32(v))
	}
	return b
}
