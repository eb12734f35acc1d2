package perfbuf

import "github.com/ringfold/ringfold/internal/friend"

func init() {
	friend.OpenDefault = func(mapFD int, options any) (any, func(), error) {
		r, err := openDefault(mapFD, options.(Options))
		if err != nil {
			return nil, nil, err
		}
		return r, r.countUnreported, nil
	}
}

// openDefault is Open for rings that perf_buffer__new sets up.
func openDefault(mapFD int, o Options) (*Reader, error) {
	o.NoTime, o.perfBufferNew = true, true
	return Open(mapFD, o)
}
