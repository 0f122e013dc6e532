{{- define "samara.labels" -}}
app.kubernetes.io/name: samara
{{- end -}}

{{- define "samara.podLabels" -}}
app.kubernetes.io/name: samara
app.kubernetes.io/component: operator
{{- end -}}

{{/* The settings as the operator reads them. */}}
{{- define "samara.config" -}}
{{- printf "%s\n" (toYaml .Values.settings) -}}
{{- end -}}

{{- define "samara.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- define "samara.podSecurity" -}}
runAsGroup: 65532
runAsNonRoot: true
runAsUser: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "samara.containerSecurity" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
readOnlyRootFilesystem: true
{{- end -}}
