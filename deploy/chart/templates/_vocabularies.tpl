{{/*
The vocabularies that the settings name, or those that are served by default, as JSON. Each has its settings in `own`.
Everything else about a vocabulary is in files/vocabularies.yaml, which `make chart` generates from the program.
*/}}
{{- define "samara.vocabularies" -}}
{{- $given := .Values.settings.vocabularies | default dict -}}
{{- $served := list -}}
{{- range (.Files.Get "files/vocabularies.yaml" | fromYaml).vocabularies -}}
{{- if ternary (hasKey $given .name) .servedByDefault (hasKey $.Values.settings "vocabularies") -}}
{{- $own := get $given .name | default dict -}}
{{- $served = append $served (set . "own" $own) -}}
{{- end -}}
{{- end -}}
{{- toJson $served -}}
{{- end -}}

{{/* The audience of the pods' token for logins. Empty if no vocabulary needs a secret manager. */}}
{{- define "samara.tokenAudience" -}}
{{- range include "samara.vocabularies" . | fromJsonArray -}}
{{- if .tokenAudience -}}{{- .own.tokenAudience | default .tokenAudience -}}{{- end -}}
{{- end -}}
{{- end -}}

{{/* The kinds that the settings of a vocabulary list, as JSON, with the plurals that `samara rbac` guesses as well. */}}
{{- define "samara.kinds" -}}
{{- $kinds := list -}}
{{- with .kinds -}}
{{- range get $.own .key | default .default -}}
{{- $kind := . -}}
{{- if kindIs "string" . -}}
{{- $parts := splitList "/" . -}}
{{- $group := "" -}}
{{- if gt (len $parts) 2 -}}{{- $group = first $parts -}}{{- end -}}
{{- $kind = dict "group" $group "version" (index $parts (sub (len $parts) 2)) "kind" (last $parts) -}}
{{- end -}}
{{- $group := $kind.group | default "" -}}
{{- with $.kinds.denied -}}
{{- if or (has $group .groups) (has (list $group $kind.kind | compact | join "/") .kinds) -}}
{{- $found := list $group $kind.version $kind.kind | compact | join "/" -}}
{{- fail (printf "settings.vocabularies.%s.%s: expected kinds that may be copied, found %s: %s" $.name $.kinds.key $found .why) -}}
{{- end -}}
{{- end -}}
{{- $singular := lower $kind.kind -}}
{{- $plural := printf "%ss" $singular -}}
{{- if regexMatch "(^|[^aeiou])y$" $singular -}}
{{- $plural = printf "%sies" (trimSuffix "y" $singular) -}}
{{- else if regexMatch "(s|x|ch|sh)$" $singular -}}
{{- $plural = printf "%ses" $singular -}}
{{- end -}}
{{- $kinds = append $kinds (dict "group" $group "version" $kind.version "kind" $kind.kind "plural" $plural) -}}
{{- end -}}
{{- end -}}
{{- toJson $kinds -}}
{{- end -}}

{{/* The rules of the ClusterRole: those that `samara rbac` prints, and rbac.extraRules. */}}
{{- define "samara.rules" -}}
{{- $rules := list -}}
{{- range include "samara.vocabularies" . | fromJsonArray -}}
{{- $rules = concat $rules .rules -}}
{{- if not .own.takeover -}}{{- $rules = concat $rules .rulesUnlessTakeover -}}{{- end -}}
{{- $vocabulary := . -}}
{{- range include "samara.kinds" . | fromJsonArray -}}
{{- $rules = append $rules (dict "apiGroups" (list .group) "resources" (list .plural) "verbs" $vocabulary.kinds.verbs) -}}
{{- end -}}
{{- end -}}
{{- concat $rules .Values.rbac.extraRules | uniq | toYaml -}}
{{- end -}}

{{/* The rules of the Role in the operator's namespace. */}}
{{- define "samara.rulesInOwnNamespace" -}}
{{- $rules := list -}}
{{- range include "samara.vocabularies" . | fromJsonArray -}}
{{- $rules = concat $rules .rulesInOwnNamespace -}}
{{- end -}}
{{- $rules | uniq | toYaml -}}
{{- end -}}

{{/*
One webhook for two vocabularies that guard the same kind, as JSON: it is called if either asks for it, and fails closed if
either does. Takes a list of the two.
*/}}
{{- define "samara.joinedWebhooks" -}}
{{- $one := first . -}}
{{- $two := last . -}}
{{- $conditions := list -}}
{{- $expressions := list -}}
{{- range concat $one.matchConditions $two.matchConditions -}}
{{- if eq .name "carries-our-words" -}}
{{- $expressions = append $expressions .expression -}}
{{- else -}}
{{- $conditions = append $conditions . -}}
{{- end -}}
{{- end -}}
{{- if $expressions -}}
{{- $conditions = append $conditions (dict "name" "carries-our-words" "expression" (join " || " $expressions)) -}}
{{- end -}}
{{- $rule := first $one.rules -}}
{{- $other := first $two.rules -}}
{{- $versions := concat $rule.apiVersions $other.apiVersions | uniq | sortAlpha -}}
{{- $operations := concat $rule.operations $other.operations | uniq -}}
{{- $rules := list (merge (dict "apiVersions" $versions "operations" $operations) $rule) -}}
{{- $policy := ternary "Fail" "Ignore" (has "Fail" (list $one.failurePolicy $two.failurePolicy)) -}}
{{- toJson (merge (dict "matchConditions" (uniq $conditions) "rules" $rules "failurePolicy" $policy) $one) -}}
{{- end -}}

{{/* The webhooks of one configuration, sorted by name, as JSON. Takes root, type (validating or mutating) and path. */}}
{{- define "samara.webhooks" -}}
{{- $webhookByName := dict -}}
{{- $type := .type -}}
{{- range include "samara.vocabularies" .root | fromJsonArray -}}
{{- $own := dict -}}
{{- range get . $type -}}
{{- $_ := set $own .name . -}}
{{- end -}}
{{- $vocabulary := . -}}
{{- range include "samara.kinds" . | fromJsonArray -}}
{{- $kind := . -}}
{{- range get $vocabulary.kinds $type | default list -}}
{{- $name := printf "%s.%s.samara.dev" $kind.plural $kind.group | replace ".." "." -}}
{{- if hasKey $own $name -}}
{{- fail (printf "settings.vocabularies.%s.%s: expected each kind once, found %s in two versions" $vocabulary.name $vocabulary.kinds.key $kind.kind) -}}
{{- end -}}
{{- $rule := merge (dict "apiGroups" (list $kind.group) "apiVersions" (list $kind.version) "resources" (list $kind.plural)) (first .rules) -}}
{{- $_ := set $own $name (merge (dict "name" $name "rules" (list $rule)) .) -}}
{{- end -}}
{{- end -}}
{{- range $name, $webhook := $own -}}
{{- if hasKey $webhookByName $name -}}
{{- $webhook = include "samara.joinedWebhooks" (list (get $webhookByName $name) $webhook) | fromJson -}}
{{- end -}}
{{- $_ := set $webhookByName $name $webhook -}}
{{- end -}}
{{- end -}}
{{- $client := dict -}}
{{- if .root.Values.webhook.url -}}
{{- $_ := set $client "url" (printf "%s%s" (trimSuffix "/" .root.Values.webhook.url) .path) -}}
{{- else -}}
{{- $_ := set $client "service" (dict "name" "samara-webhook" "namespace" .root.Release.Namespace "path" .path "port" 443) -}}
{{- end -}}
{{- $otherNamespaces := dict "key" "kubernetes.io/metadata.name" "operator" "NotIn" "values" (list .root.Release.Namespace) -}}
{{- $webhooks := list -}}
{{- range $webhookByName -}}
{{- $webhooks = append $webhooks (merge (dict "clientConfig" $client "namespaceSelector" (dict "matchExpressions" (list $otherNamespaces))) .) -}}
{{- end -}}
{{- toJson $webhooks -}}
{{- end -}}

{{/* Not empty if the operator has a webhook server. */}}
{{- define "samara.hasWebhooks" -}}
{{- if not .Values.observe -}}
{{- range include "samara.vocabularies" . | fromJsonArray -}}
{{- if or .validating .mutating (dig "kinds" "validating" list .) -}}yes{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
Fails if another release, or `samara manifests`, has installed the operator in this cluster. Found by the bindings of its
account, because a release may give its objects other names. Finds nothing where helm has no cluster to ask.
*/}}
{{- define "samara.checkIsAlone" -}}
{{- range (lookup "rbac.authorization.k8s.io/v1" "ClusterRoleBinding" "" "").items -}}
{{- $annotations := .metadata.annotations | default dict -}}
{{- $isOurs := eq "samara" (get (.metadata.labels | default dict) "app.kubernetes.io/name") -}}
{{- if and $isOurs .subjects (not (hasKey $annotations "helm.sh/hook")) -}}
{{- $release := get $annotations "meta.helm.sh/release-name" -}}
{{- $namespace := (first .subjects).namespace -}}
{{- if or (ne $namespace $.Release.Namespace) (and $release (ne $release $.Release.Name)) -}}
{{- $where := printf "namespace %s" $namespace -}}
{{- if $release -}}{{- $where = printf "release %s in namespace %s" $release $namespace -}}{{- end -}}
{{- fail (printf "expected no other samara in this cluster, found %s (ClusterRoleBinding %s): two operators would undo each other's writes; upgrade or uninstall that one" $where .metadata.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Fails if the values have a key that was renamed, or values that are valid alone but not together. */}}
{{- define "samara.check" -}}
{{- range $old, $new := (.Files.Get "files/vocabularies.yaml" | fromYaml).renamed -}}
{{- if hasKey $.Values.settings $old -}}
{{- fail (printf "settings.%s: unknown key, it is called '%s' now" $old $new) -}}
{{- end -}}
{{- end -}}
{{- include "samara.checkIsAlone" . -}}
{{- if and .Values.image.tag .Values.image.digest -}}
{{- fail "image: expected a tag or a digest, found both; leave one empty" -}}
{{- end -}}
{{- if and .Values.webhook.certManager .Values.webhook.url -}}
{{- fail "webhook: certManager makes the certificate of the Service, found webhook.url as well, which is in its place; leave one out" -}}
{{- end -}}
{{- if and .Values.webhook.certManager .Values.observe -}}
{{- fail "webhook.certManager needs a webhook server, found observe: true, which has none; leave one out" -}}
{{- end -}}
{{- $strict := eq (toString .Values.settings.tenancy) "strict" -}}
{{- range include "samara.vocabularies" . | fromJsonArray -}}
{{- $vocabulary := . -}}
{{- range $key := .fileSettings -}}
{{- with get $vocabulary.own $key -}}
{{- $path := . -}}
{{- $isMounted := false -}}
{{- range $.Values.extraVolumeMounts -}}
{{- if hasPrefix (printf "%s/" (trimSuffix "/" .mountPath)) $path -}}{{- $isMounted = true -}}{{- end -}}
{{- if eq .mountPath $path -}}{{- $isMounted = true -}}{{- end -}}
{{- end -}}
{{- if not $isMounted -}}
{{- fail (printf "settings.vocabularies.%s.%s: expected the keys of that file in its place, found %s: there is no such file in the operator's pods" $vocabulary.name $key .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $conflicts := .own.conflicts | default $.Values.settings.conflicts | default "refuse" -}}
{{- if and .overwriteNeedsOpenTenancy $strict (eq $conflicts "overwrite") -}}
{{- fail (printf "settings: conflicts: overwrite is refused for %s while tenancy is strict; set settings.vocabularies.%s.conflicts: refuse" .name .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
