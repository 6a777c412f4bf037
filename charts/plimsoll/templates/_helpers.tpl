{{/* The image of a program: plimsoll.image (list . "controller") */}}
{{- define "plimsoll.image" -}}
{{- $root := index . 0 -}}
{{- $images := $root.Values.images -}}
{{- $registry := required "images.registry is required: push the images with `cargo xtask images`, or name the mirror that has them" $images.registry -}}
{{- printf "%s/plimsoll/%s:%s" $registry (index . 1) ($images.tag | default $root.Chart.AppVersion) -}}
{{- end }}

{{/* The labels that select the pods of a program. They never change: a selector is immutable. */}}
{{- define "plimsoll.selector" -}}
app.kubernetes.io/name: plimsoll
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* All labels of an object: plimsoll.labels (list . "controller") */}}
{{- define "plimsoll.labels" -}}
{{- $root := index . 0 -}}
{{ include "plimsoll.selector" . }}
app.kubernetes.io/part-of: plimsoll
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
{{- end }}

{{/* Annotations of a pod: plimsoll.podAnnotations (list . port) */}}
{{- define "plimsoll.podAnnotations" -}}
{{- if (index . 0).Values.metrics.annotations }}
annotations:
  prometheus.io/scrape: "true"
  prometheus.io/port: {{ index . 1 | quote }}
  prometheus.io/path: /metrics
{{- end }}
{{- end }}

{{/* What both kinds of pods take from the values about images and placement: plimsoll.placement (list . .Values.controller) */}}
{{- define "plimsoll.placement" -}}
{{- $root := index . 0 -}}
{{- $values := index . 1 -}}
{{- with $root.Values.images.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Registries without TLS, the same flag for both programs. */}}
{{- define "plimsoll.plainHttpArguments" -}}
{{- range .Values.plainHttpRegistries }}
- --plain-http-registry={{ . }}
{{- end }}
{{- end }}
