package perfdata

import (
	"testing"
	"time"
)

// A recording that joins running replays does not set them back. One that leaves keeps its pace.
func TestPaceGoesOn(t *testing.T) {
	began := time.Now().Add(-time.Hour)
	group := &group{}
	group.session.Store(&session{speed: 1, looked: true, clock: clock{begun: began, first: 7}})
	k := &replay{recording: &recording{}, o: ReplayOptions{Speed: 1}}
	k.session.Store(&session{members: []*replay{k}, clock: clock{begun: time.Now(), first: 9}})
	if err := group.Add(k); err != nil {
		t.Fatal(err)
	}
	if c := group.session.Load().clock; !c.begun.Equal(began) || c.first != 7 || k.session.Load() != group.session.Load() {
		t.Fatalf("%+v", c)
	}
	group.Remove(k)
	if c := k.session.Load().clock; !c.begun.Equal(began) || c.first != 7 || len(group.session.Load().members) != 0 {
		t.Fatalf("%+v", c)
	}
}
