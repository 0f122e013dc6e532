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

{{/* Values that are right one by one but not together. */}}
{{- define "samara.check" -}}
{{- if and .Values.image.tag .Values.image.digest -}}
{{- fail "image: expected a tag or a digest, found both; leave one empty" -}}
{{- end -}}
{{- if and .Values.webhook.certManager .Values.webhook.url -}}
{{- fail "webhook: certManager makes the certificate of the Service, found webhook.url as well, which is in its place; leave one out" -}}
{{- end -}}
{{- if and .Values.webhook.certManager .Values.observe -}}
{{- fail "webhook.certManager needs a webhook server, found observe: true, which has none; leave one out" -}}
{{- end -}}
{{- $vocabularies := .Values.settings.vocabularies | default dict -}}
{{- $accurate := get $vocabularies "accurate" | default dict -}}
{{- if $accurate.configFile -}}
{{- fail (printf "settings.vocabularies.accurate.configFile: expected the keys of that file in its place, found %s: there is no such file in the operator's pods" $accurate.configFile) -}}
{{- end -}}
{{- $tenants := get $vocabularies "sync-to" | default dict -}}
{{- $syncs := or (not (hasKey .Values.settings "vocabularies")) (hasKey $vocabularies "sync-to") -}}
{{- if and $syncs (eq (toString .Values.settings.tenancy) "strict") (eq ($tenants.conflicts | default .Values.settings.conflicts | default "refuse") "overwrite") -}}
{{- fail "settings: conflicts: overwrite is refused for sync-to while tenancy is strict; set settings.vocabularies.sync-to.conflicts: refuse" -}}
{{- end -}}
{{- end -}}
