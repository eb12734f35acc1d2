// Package deploy checks what is deployed: manifests, the systemd unit, and that they agree.
package deploy

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"
)

// objects decodes all manifests, and refuses keys that Kubernetes does not know.
func objects(t *testing.T) map[string]any {
	t.Helper()
	all := map[string]any{}
	manifests, err := filepath.Glob("kubernetes/*.yaml")
	require.NoError(t, err)
	for _, file := range manifests {
		for part := range bytes.SplitSeq([]byte(read(t, file)), []byte("\n---\n")) {
			var what struct {
				APIVersion, Kind string
				Metadata         struct{ Name string }
			}
			require.NoErrorf(t, yaml.Unmarshal(part, &what), "%s", file)
			object := map[string]any{
				"apps/v1 DaemonSet":                  &apps.DaemonSet{},
				"apps/v1 StatefulSet":                &apps.StatefulSet{},
				"networking.k8s.io/v1 NetworkPolicy": &networking.NetworkPolicy{},
				"v1 ConfigMap":                       &core.ConfigMap{},
				"v1 Namespace":                       &core.Namespace{},
				"v1 Service":                         &core.Service{},
				"kustomize.config.k8s.io/v1beta1 Kustomization": &struct {
					APIVersion, Kind, Namespace string
					Resources                   []string
					Images                      []struct{ Name, NewTag string }
				}{},
			}[what.APIVersion+" "+what.Kind]
			require.NotNilf(t, object, "%s: %v", file, what)
			require.NoErrorf(t, yaml.UnmarshalStrict(part, object), "%s", file)
			all[what.Kind+" "+what.Metadata.Name] = object
		}
	}
	return all
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

func TestManifests(t *testing.T) {
	all := objects(t)
	kustomization := read(t, "kubernetes/kustomization.yaml")
	manifests, err := filepath.Glob("kubernetes/*.yaml")
	require.NoError(t, err)
	for _, file := range manifests {
		if name := filepath.Base(file); name != "kustomization.yaml" {
			require.Contains(t, kustomization, "- "+name+"\n")
		}
	}
	pod := all["DaemonSet ringfold"].(*apps.DaemonSet).Spec.Template
	agree(t, all["DaemonSet ringfold"].(*apps.DaemonSet).Spec.Selector.MatchLabels, pod.Labels, pod.Spec)
	nats := all["StatefulSet nats"].(*apps.StatefulSet).Spec
	agree(t, nats.Selector.MatchLabels, nats.Template.Labels, nats.Template.Spec, nats.VolumeClaimTemplates[0].Name)
	require.Equal(t, nats.Template.Labels, all["Service nats"].(*core.Service).Spec.Selector)

	// The spool outlives the pod, and is where the command line says.
	c := pod.Spec.Containers[0]
	require.NotNil(t, pod.Spec.Volumes[0].HostPath)
	to := command(t, append([]string{"ringfold"}, c.Args...))
	require.Equal(t, c.VolumeMounts[0].MountPath, filepath.Dir(to.Query().Get("spool")))
	require.Equal(t, c.VolumeMounts[1].MountPath, filepath.Dir(to.Query().Get("creds")))
	require.Equal(t, "$(NODE_NAME)", to.Query().Get("host"))
	require.Equal(t, "NODE_NAME", c.Env[0].Name)
	require.Equal(t, all["Service nats"].(*core.Service).Name, to.Hostname())
}

// agree checks what the API server would refuse: labels that the selector does not find, and mounts
// without a volume.
func agree(t *testing.T, selector, labels map[string]string, pod core.PodSpec, volumes ...string) {
	t.Helper()
	require.Equal(t, selector, labels)
	for _, v := range pod.Volumes {
		volumes = append(volumes, v.Name)
	}
	for _, m := range pod.Containers[0].VolumeMounts {
		require.Contains(t, volumes, m.Name)
	}
}

// command checks a command line of ringfold that publishes, and returns where to.
func command(t *testing.T, line []string) *url.URL {
	t.Helper()
	require.Len(t, line, 4)
	require.Equal(t, []string{"ringfold", "record", "-w"}, line[:3])
	to, err := url.Parse(line[3])
	require.NoError(t, err)
	require.Equal(t, "nats", to.Scheme)
	require.Equal(t, "/EVENTS", to.Path)
	parameters, err := url.ParseQuery(to.RawQuery)
	require.NoError(t, err)
	for name := range parameters {
		require.Contains(t, []string{"host", "spool", "spool-size", "max-age", "creds", "tlsca"}, name)
	}
	return to
}

func TestUnit(t *testing.T) {
	unit, env := read(t, "systemd/ringfold-record.service"), read(t, "systemd/record.env")
	exec := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/(.*) \$\{RINGFOLD_TO\}$`).FindStringSubmatch(unit)
	require.NotNil(t, exec)
	to := regexp.MustCompile(`(?m)^RINGFOLD_TO='(.*)'$`).FindStringSubmatch(env)
	require.NotNil(t, to)
	u := command(t, append(strings.Fields(exec[1]), to[1]))
	require.Equal(t, "/var/lib/ringfold", filepath.Dir(u.Query().Get("spool")), "StateDirectory=ringfold")

	// The same privileges as in Kubernetes, which docs/permissions.md explains.
	var capabilities []string
	for _, c := range objects(t)["DaemonSet ringfold"].(*apps.DaemonSet).Spec.Template.Spec.Containers[0].SecurityContext.Capabilities.Add {
		capabilities = append(capabilities, "CAP_"+string(c))
	}
	for _, key := range []string{"AmbientCapabilities", "CapabilityBoundingSet"} {
		require.Contains(t, unit, fmt.Sprintf("\n%s=%s\n", key, strings.Join(capabilities, " ")))
	}
	require.True(t, slices.IsSorted(capabilities))
}

func TestUnitVerifies(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("no systemd-analyze")
	}
	unit := filepath.Join(t.TempDir(), "ringfold-record.service")
	text := strings.ReplaceAll(read(t, "systemd/ringfold-record.service"), "/usr/bin/ringfold ", "/bin/true ")
	require.NoError(t, os.WriteFile(unit, []byte(text), 0o644))
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", unit).CombinedOutput()
	require.NoErrorf(t, err, "%s", out)
	require.NotContains(t, string(out), unit, "complaints") // unknown keys are no failure
}
