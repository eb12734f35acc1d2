package cli

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Size is a number of bytes, such as 65536, 64KiB or 16MiB. It is a pflag.Value.
type Size uint64

var units = []struct {
	name  string
	shift int
}{{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"K", 10}, {"M", 20}, {"G", 30}, {"B", 0}, {"", 0}}

// Set parses s.
func (z *Size) Set(s string) error {
	for _, unit := range units {
		number, found := strings.CutSuffix(s, unit.name)
		if !found {
			continue
		}
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil || bits.Len64(n)+unit.shift > 63 {
			return fmt.Errorf("%q is not a size such as 64KiB or 16MiB", s)
		}
		*z = Size(n << unit.shift)
		return nil
	}
	panic("unreachable: the last unit is empty")
}

// String is the size in the largest unit that divides it.
func (z *Size) String() string {
	for _, unit := range []int{2, 1, 0} {
		if n := uint64(*z); n != 0 && n&(1<<units[unit].shift-1) == 0 {
			return strconv.FormatUint(n>>units[unit].shift, 10) + units[unit].name
		}
	}
	return strconv.FormatUint(uint64(*z), 10)
}

// Type is for the usage text.
func (*Size) Type() string { return "size" }
