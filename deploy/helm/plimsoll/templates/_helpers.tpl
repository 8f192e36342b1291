{{- define "plimsoll.name" -}}
{{- if eq .Release.Name "plimsolld" }}plimsolld{{ else }}{{ .Release.Name }}-plimsolld{{ end }}
{{- end }}

{{- define "plimsoll.selector" -}}
app.kubernetes.io/name: plimsolld
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "plimsoll.metadata" -}}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "plimsoll.selector" . | nindent 2 }}
  app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .Release.Service }}
  helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "plimsoll.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}
