{{/* The program and its commands find an installation by this label, so no value changes it. */}}
{{- define "samara.selector" -}}
app.kubernetes.io/name: samara
{{- end -}}

{{- define "samara.podLabels" -}}
{{ include "samara.selector" . }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "samara.labels" -}}
{{ include "samara.selector" . }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* An object of a generated file with these labels, as YAML. Takes a list of root and object. */}}
{{- define "samara.labelled" -}}
{{- $labels := include "samara.labels" (first .) | fromYaml -}}
{{- $metadata := (last .).metadata -}}
{{- set (last .) "metadata" (set $metadata "labels" (merge $labels $metadata.labels)) | toYaml -}}
{{- end -}}

{{/*
The name of the objects. Those that the program finds or writes by name have fixed names: the Service and the
configurations of the webhook, its Secret, the Lease and the ConfigMap with held deletions.
*/}}
{{- define "samara.fullname" -}}
{{- $name := "samara" -}}
{{- if .Values.fullnameOverride -}}
{{- $name = .Values.fullnameOverride -}}
{{- else if .Values.nameOverride -}}
{{- $name = .Values.nameOverride -}}
{{- $name = ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- end -}}
{{- $name | trunc 53 | trimSuffix "-" -}}
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
