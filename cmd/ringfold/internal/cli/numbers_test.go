package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFormats(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 12345678: "12,345,678", 1<<64 - 1: "18,446,744,073,709,551,615"} {
		require.Equal(t, want, Count(n))
	}
	for f, want := range map[float64]string{0: "0", 0.2: "0.2", 3: "3", 9.94: "9.9", 9.96: "10", 1234.5: "1,235"} {
		require.Equal(t, want, PerSecond(f))
	}
	for f, want := range map[float64]string{0: "0 B", 1023: "1023 B", 1023.97: "1.0 KiB", 1024: "1.0 KiB", 1536: "1.5 KiB", 1024*1024 - 1: "1.0 MiB", 5 << 40: "5.0 TiB"} {
		require.Equal(t, want, Bytes(f))
	}
	for f, want := range map[float64]string{0: "0%", 0.0001: "1%", 0.5: "50%", 0.9999: "99%", 1: "100%"} {
		require.Equal(t, want, Percent(f))
	}
	for n, want := range map[int]string{0: "0%", 1: "1%", 500: "50%", 1500: "100%"} {
		require.Equal(t, want, Share(n, 1000))
	}
	require.Equal(t, "-", Share(0, 0))
	for d, want := range map[time.Duration]string{0: "0.0", 7649 * time.Microsecond: "7.6", 99960 * time.Microsecond: "100", 65 * time.Second: "65000"} {
		require.Equal(t, want, Milliseconds(d))
	}
}

func TestRound(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 999: "999ns", 9996: "10µs", 48_123_456: "48.1ms", 999_600_000: "1s", 123_456_789_000: "2m3s", -235_123: "-235µs",
	} {
		require.Equal(t, want, Round(d).String())
	}
}
