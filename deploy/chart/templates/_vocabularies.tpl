{{/* The vocabularies that the settings name (all of them where they name none), each with its own settings. JSON. */}}
{{- define "samara.vocabularies" -}}
{{- $given := .Values.settings.vocabularies | default dict -}}
{{- $chosen := list -}}
{{- range (.Files.Get "files/vocabularies.yaml" | fromYaml).vocabularies -}}
{{- if or (not (hasKey $.Values.settings "vocabularies")) (hasKey $given .name) -}}
{{- $own := get $given .name | default dict -}}
{{- $chosen = append $chosen (set . "own" $own) -}}
{{- end -}}
{{- end -}}
{{- toJson $chosen -}}
{{- end -}}

{{/* The kinds that a vocabulary's settings list, with their plurals as `samara rbac` guesses them. JSON. */}}
{{- define "samara.kinds" -}}
{{- $found := list -}}
{{- with .kinds -}}
{{- range get $.own .key | default .default -}}
{{- $kind := . -}}
{{- $named := . -}}
{{- if kindIs "string" . -}}
{{- $parts := splitList "/" . -}}
{{- $group := "" -}}
{{- if gt (len $parts) 2 -}}{{- $group = first $parts -}}{{- end -}}
{{- $kind = dict "group" $group "version" (index $parts (sub (len $parts) 2)) "kind" (last $parts) -}}
{{- end -}}
{{- with $.kinds.denied -}}
{{- if or (has $kind.group .groups) (has (printf "%s/%s" $kind.group $kind.kind | trimPrefix "/") .kinds) -}}
{{- fail (printf "settings.vocabularies.%s.%s: expected kinds that may be copied, found %s: kinds that give rights, that keep the cluster's books or that ask for copies are never copied" $.name $.kinds.key $named) -}}
{{- end -}}
{{- end -}}
{{- $low := lower $kind.kind -}}
{{- $plural := printf "%ss" $low -}}
{{- if regexMatch "(^|[^aeiou])y$" $low -}}
{{- $plural = printf "%sies" (trimSuffix "y" $low) -}}
{{- else if regexMatch "(s|x|ch|sh)$" $low -}}
{{- $plural = printf "%ses" $low -}}
{{- end -}}
{{- $found = append $found (dict "group" ($kind.group | default "") "version" $kind.version "kind" $kind.kind "plural" $plural) -}}
{{- end -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{/* The rules of the ClusterRole: exactly what `samara rbac` prints, and what rbac.extraRules adds. */}}
{{- define "samara.rules" -}}
{{- $rules := list -}}
{{- range include "samara.vocabularies" . | fromJsonArray -}}
{{- $rules = concat $rules .rules -}}
{{- if not .own.takeover -}}{{- $rules = concat $rules .rulesOfOriginal -}}{{- end -}}
{{- $vocabulary := . -}}
{{- range include "samara.kinds" . | fromJsonArray -}}
{{- $rules = append $rules (dict "apiGroups" (list .group) "resources" (list .plural) "verbs" $vocabulary.kinds.verbs) -}}
{{- end -}}
{{- end -}}
{{- concat $rules .Values.rbac.extraRules | uniq | toYaml -}}
{{- end -}}

{{/* The rules of the Role in the operator's namespace. */}}
{{- define "samara.rulesAtHome" -}}
{{- $rules := list -}}
{{- range include "samara.vocabularies" . | fromJsonArray -}}
{{- $rules = concat $rules .rulesAtHome -}}
{{- end -}}
{{- $rules | uniq | toYaml -}}
{{- end -}}

{{/* The webhooks of one kind of configuration, by name. JSON. Takes root, configured (validating, mutating) and path. */}}
{{- define "samara.webhooks" -}}
{{- $found := dict -}}
{{- $configured := .configured -}}
{{- range include "samara.vocabularies" .root | fromJsonArray -}}
{{- range get . $configured -}}
{{- $_ := set $found .name . -}}
{{- end -}}
{{- $vocabulary := . -}}
{{- range include "samara.kinds" . | fromJsonArray -}}
{{- $kind := . -}}
{{- range get $vocabulary.kinds $configured | default list -}}
{{- $name := printf "%s.%s.samara.dev" $kind.plural $kind.group | replace ".." "." -}}
{{- if hasKey $found $name -}}
{{- fail (printf "settings.vocabularies.%s.%s: expected each kind once, found %s in two versions" $vocabulary.name $vocabulary.kinds.key $kind.kind) -}}
{{- end -}}
{{- $rule := merge (dict "apiGroups" (list $kind.group) "apiVersions" (list $kind.version) "resources" (list $kind.plural)) (first .rules) -}}
{{- $_ := set $found $name (merge (dict "name" $name "rules" (list $rule)) .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $client := dict -}}
{{- if .root.Values.webhook.url -}}
{{- $_ := set $client "url" (printf "%s%s" (trimSuffix "/" .root.Values.webhook.url) .path) -}}
{{- else -}}
{{- $_ := set $client "service" (dict "name" "samara-webhook" "namespace" .root.Release.Namespace "path" .path "port" 443) -}}
{{- end -}}
{{- $apart := dict "key" "kubernetes.io/metadata.name" "operator" "NotIn" "values" (list .root.Release.Namespace) -}}
{{- $hooks := list -}}
{{- range $found -}}
{{- $hooks = append $hooks (merge (dict "clientConfig" $client "namespaceSelector" (dict "matchExpressions" (list $apart))) .) -}}
{{- end -}}
{{- toJson $hooks -}}
{{- end -}}

{{/* Not empty where the operator answers admission. */}}
{{- define "samara.admits" -}}
{{- if not .Values.observe -}}
{{- range include "samara.vocabularies" . | fromJsonArray -}}
{{- if or .validating .mutating (dig "kinds" "validating" list .) -}}yes{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
