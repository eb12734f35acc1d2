package source

import (
	"context"
	"time"
)

// lookEvery is the time between looks whether programs still use the maps.
const lookEvery = time.Second

// watchPrograms notes when the last program that uses a map is gone, until ctx is done: whoever waits
// for events should not wait in vain.
func (set *Set) watchPrograms(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	used := map[*Source]bool{}
	for _, s := range set.All() {
		if s.File == "" && s.ID != 0 { // not the command's own
			used[s] = len(s.Programs) > 0 // else Announce has said so
		}
	}
	for len(used) > 0 {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for s, before := range used {
			m := s.Map
			if used[s] = m.Used(); before && !used[s] {
				set.Note("the last program that used the map %s is gone: nothing comes until another one uses it; reading goes on", s)
			}
		}
	}
}
