package stat

import (
	"encoding/json"
	"io"
)

// jsonLines prints an object per interval, and {"summary":...} as the last one.
type jsonLines struct{ out io.Writer }

func (j jsonLines) interval(c *counts) error { return json.NewEncoder(j.out).Encode(c) }

func (j jsonLines) summary(c *counts) error {
	return json.NewEncoder(j.out).Encode(map[string]*counts{"summary": c})
}
