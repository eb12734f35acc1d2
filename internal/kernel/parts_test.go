package kernel

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// able is a kernel that has all parts.
type able struct {
	Kernel
	Named
	Entries
	Displaceable
	LostCounter
	LossCounter
	OutputCounter
	Shedder
	Hotplug
	Returning
	Watcher
	Stepped
}

// A kernel's parts are found, and those that it lacks are nil.
func TestPartsOf(t *testing.T) {
	all, none := reflect.ValueOf(PartsOf(able{})), reflect.ValueOf(PartsOf(struct{ Kernel }{}))
	for i := range all.NumField() {
		name := all.Type().Field(i).Name
		require.False(t, all.Field(i).IsNil(), name)
		require.True(t, none.Field(i).IsNil(), name)
	}
}

// Without a part, there is nothing to know or to do.
func TestNoParts(t *testing.T) {
	var p Parts
	id, name := p.Map()
	require.Zero(t, id)
	require.Empty(t, name)
	require.NoError(t, p.Set(0, Bell))
	require.Zero(t, p.Displaced())
	require.Zero(t, p.Replaced())
	_, ok := p.Lost(0)
	require.False(t, ok)
	require.Zero(t, p.Outputs())
}
