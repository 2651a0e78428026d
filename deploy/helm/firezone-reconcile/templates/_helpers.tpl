{{- define "reconcile.name" -}}
{{- $full := contains .Chart.Name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) }}
{{- $full | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "reconcile.selector" -}}
app.kubernetes.io/name: firezone-reconcile
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "reconcile.labels" -}}
{{ include "reconcile.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* The names of the targets that have all of these labels, as JSON: {root, labels}. */ -}}
{{- define "reconcile.targets" -}}
{{- $names := list }}
{{- $defaults := dig "defaults" "labels" dict .root.Values.fleet }}
{{- range .root.Values.fleet.targets }}
  {{- $own := merge (dict) (.labels | default dict) $defaults }}
  {{- $fits := true }}
  {{- range $key, $value := $.labels }}{{ if ne (toString (get $own $key)) (toString $value) }}{{ $fits = false }}{{ end }}{{ end }}
  {{- if $fits }}{{ $names = append $names .name }}{{ end }}
{{- end }}
{{- toJson $names }}
{{- end }}

{{- /*
The Deployments of this release, as JSON: name, labels that choose targets, the Secret, and the Leases that it may hold. A Lease is
named after its target, not its shard: a target that moves to another shard is never written by both.
*/ -}}
{{- define "reconcile.shards" -}}
{{- $name := include "reconcile.name" . }}
{{- $shards := list }}
{{- $taken := dict }}
{{- if not .Values.fleet.targets }}
  {{- if .Values.shards }}{{ fail "shards: are parts of a fleet: name the targets under fleet.targets" }}{{ end }}
  {{- if not (and .Values.settings.baseUrl .Values.settings.gitUrl) }}{{ fail "name a server and its manifests: settings.baseUrl and settings.gitUrl; or many servers under fleet.targets" }}{{ end }}
  {{- $shards = list (dict "name" $name "secret" .Values.secretName "leases" (list $name)) }}
{{- else }}
  {{- if not .Values.settings.gitUrl }}{{ fail "settings.gitUrl is missing: the repository with the manifests of the fleet" }}{{ end }}
  {{- if .Values.settings.baseUrl }}{{ fail "settings.baseUrl and fleet.targets exclude each other: each target names its server" }}{{ end }}
  {{- range .Values.shards | default (list (dict "name" "")) }}
    {{- $shard := . }}
    {{- $leases := list }}
    {{- range include "reconcile.targets" (dict "root" $ "labels" (.labels | default dict)) | fromJsonArray }}
      {{- if hasKey $taken . }}{{ fail (printf "the target %s belongs to the shards %s and %s" . (get $taken .) $shard.name) }}{{ end }}
      {{- $_ := set $taken . $shard.name }}
      {{- $leases = append $leases (printf "%s-%s" $name (. | lower | replace "_" "-")) }}
    {{- end }}
    {{- if not $leases }}{{ fail (printf "the shard %s has no target" .name) }}{{ end }}
    {{- $full := ternary $name (printf "%s-%s" $name .name) (eq .name "") }}
    {{- $shards = append $shards (dict "name" $full "shard" .name "labels" (.labels | default dict) "secret" (.secretName | default $.Values.secretName) "leases" $leases) }}
  {{- end }}
  {{- range .Values.fleet.targets }}
    {{- if not (hasKey $taken .name) }}{{ fail (printf "the target %s belongs to no shard: nobody would look after it" .name) }}{{ end }}
  {{- end }}
{{- end }}
{{- toJson $shards }}
{{- end }}

{{- /* The labels of the pods of a shard: {root, shard}. */ -}}
{{- define "reconcile.pods" -}}
{{ include "reconcile.selector" .root }}
{{- with .shard.shard }}
app.kubernetes.io/component: {{ . | quote }}
{{- end }}
{{- end }}
