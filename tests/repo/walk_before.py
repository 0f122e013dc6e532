"""The state that a page requires: namespaces, a running operator, or objects of an original."""

from tests.repo.walk import Before

TEAMS = ("shop", "billing", "reports")
APPLY = "kubectl apply --server-side --field-manager=accurate-controller -f -"
"""As the original of Accurate writes."""
BARE = "kubectl delete crd --all"
"""Removes definitions, because helm refuses to adopt existing ones."""

_CERTIFICATE = """
apiVersion: v1
kind: Secret
metadata: {name: company-ca, namespace: cert-manager}
stringData: {ca.crt: an example, tls.key: another example}
"""

_PULL_SECRET = """
apiVersion: v1
kind: Secret
metadata:
  name: registry-pull
  namespace: admin
  annotations: {secret-copy/namespaces: ""}
stringData: {password: an-example-not-a-password}
"""

_DATABASE = _PULL_SECRET.replace("registry-pull", "orders-database")

_DISTRIBUTION = """
apiVersion: apps.kruise.io/v1beta1
kind: ResourceDistribution
metadata: {name: company-registry}
spec:
  resource:
    apiVersion: v1
    kind: Secret
    metadata: {name: company-registry}
    stringData: {password: an-example-not-a-password}
  targets: {allNamespaces: true}
"""

_FISHY = """
apiVersion: v1
kind: Secret
metadata:
  name: test-secret
  namespace: target-namespace
stringData: {DB_USER: app_user}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: fishykeys-controller-manager, namespace: fishykeys}
spec:
  selector: {matchLabels: {app: fishykeys}}
  template:
    metadata: {labels: {app: fishykeys}}
    spec:
      containers: [{name: manager, image: images.example.com/fishykeys}]
---
apiVersion: fishykeys.2v.pm/v1alpha1
kind: FishySecret
metadata: {name: fishysecret-db, namespace: default}
spec:
  target: {name: test-secret, namespace: target-namespace}
  data: [{secretPath: /app/db/username, secretKeyName: DB_USER}]
"""

_ACCURATE = """
apiVersion: v1
kind: ConfigMap
metadata: {name: accurate-config, namespace: accurate}
data: {config.yaml: "watches: []"}
---
apiVersion: v1
kind: Namespace
metadata:
  name: acme
  labels: {accurate.cybozu.com/type: root}
---
apiVersion: v1
kind: Secret
metadata:
  name: acme-registry
  namespace: acme
  annotations: {accurate.cybozu.com/propagate: update}
data: {password: bm90IHJlYWw=}
---
apiVersion: accurate.cybozu.com/v2
kind: SubNamespace
metadata:
  name: acme-shop
  namespace: acme
  finalizers: [accurate.cybozu.com/finalizer]
spec: {}
"""

_LEFT_BY_CONFIG_SYNCER = """
apiVersion: v1
kind: Secret
metadata: {name: message-queue, namespace: shop}
stringData: {password: an-example-not-a-password}
"""

_LEFT_BY_REFLECTOR = """
apiVersion: v1
kind: Secret
metadata: {name: registry-login, namespace: shop}
stringData: {password: an-example-not-a-password}
"""

_LEFT_BY_ACCURATE = f"""
echo '{{apiVersion: v1, kind: Namespace, metadata: {{name: acme-shop, labels: {{accurate.cybozu.com/parent: acme, \
app.kubernetes.io/created-by: accurate}}}}}}' | {APPLY}
echo '{{apiVersion: v1, kind: Secret, metadata: {{name: acme-registry, namespace: acme-shop, \
labels: {{app.kubernetes.io/created-by: accurate}}, \
annotations: {{accurate.cybozu.com/propagate: update, accurate.cybozu.com/from: acme}}}}, \
data: {{password: bm90IHJlYWw=}}}}' | {APPLY}
echo '{{apiVersion: accurate.cybozu.com/v2, kind: SubNamespace, metadata: {{name: acme-shop, namespace: acme}}, \
status: {{observedGeneration: 1}}}}' | {APPLY} --subresource=status
"""

_TREES = """
apiVersion: v1
kind: Namespace
metadata: {name: bank, labels: {accurate.cybozu.com/type: root}}
---
apiVersion: v1
kind: Namespace
metadata: {name: payments, labels: {accurate.cybozu.com/type: root}}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {accurate.cybozu.com/type: root}}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop-dev, labels: {accurate.cybozu.com/parent: shop}}
---
apiVersion: accurate.cybozu.com/v2
kind: SubNamespace
metadata: {name: shop-dev, namespace: shop}
---
apiVersion: v1
kind: Secret
metadata: {name: registry, namespace: payments, annotations: {accurate.cybozu.com/propagate: update}}
"""

_INHERITED = f"""
echo '{{apiVersion: v1, kind: Namespace, metadata: {{name: payments-dev, \
labels: {{accurate.cybozu.com/parent: payments, team: pay}}}}}}' | {APPLY}
echo '{{apiVersion: v1, kind: Namespace, metadata: {{name: payments-prod, \
labels: {{accurate.cybozu.com/parent: payments, team: pay}}}}}}' | {APPLY}
echo '{{apiVersion: v1, kind: Secret, metadata: {{name: registry, namespace: payments-dev, \
annotations: {{accurate.cybozu.com/propagate: update, accurate.cybozu.com/from: payments}}}}}}' | {APPLY}
echo '{{vocabularies: {{accurate: {{watches: [{{version: v1, kind: Secret}}]}}}}}}' > settings.yaml
"""

_BLOCKED = """
apiVersion: v1
kind: Secret
metadata:
  name: db
  namespace: admin
  annotations: {secret-copy/namespaces: "shop, billing, reports"}
stringData: {password: an-example-not-a-password}
---
apiVersion: v1
kind: Secret
metadata: {name: db, namespace: reports}
stringData: {password: somebody else's}
"""

NEW_SOURCE = """
apiVersion: v1
kind: Secret
metadata:
  name: orders-database
  namespace: admin
  annotations: {secret-copy/namespaces: "shop, nowhere"}
---
apiVersion: v1
kind: Secret
metadata:
  name: old
  namespace: shop
  annotations: {secret-copy/origin: admin/old}
"""
"""A missing copy, a blocked one, and an orphan."""

BEFORE = {
    "README.md": Before(TEAMS, commands=f"{BARE}\nsamara run"),
    "docs/guides/ca-bundles.md": Before(
        ("cert-manager", "platform", "samara", "shop"), _CERTIFICATE, "samara run -n samara"
    ),
    "docs/guides/from-accurate.md": Before(("accurate",), _ACCURATE, _LEFT_BY_ACCURATE),
    "docs/guides/from-config-syncer.md": Before(("shop",), _LEFT_BY_CONFIG_SYNCER),
    "docs/guides/from-fishykeys.md": Before(("fishykeys", "target-namespace"), _FISHY),
    "docs/guides/from-openkruise.md": Before(("shop",), _DISTRIBUTION, "samara run"),
    "docs/guides/from-reflector.md": Before(("shop",), _LEFT_BY_REFLECTOR),
    "docs/guides/inspect.md": Before(("shop",), _BLOCKED, "samara run\nkubectl get secret db -n shop"),
    "docs/guides/install.md": Before(commands=BARE),
    "docs/guides/kind.md": Before(commands="samara run"),
    "docs/guides/namespace-trees.md": Before(("acme-legacy",)),
    "docs/guides/pull-secrets.md": Before(("shop",), commands="samara run"),
    "docs/guides/quotas.md": Before(("shop",), _PULL_SECRET, "samara run"),
    "docs/guides/replicator.md": Before(("shop", "billing")),
    "docs/guides/secret-copy.md": Before(TEAMS),
    "docs/guides/sync-to.md": Before(TEAMS),
    "docs/guides/tenants.md": Before(("shop", "platform")),
    "docs/guides/upgrade.md": Before(commands=f"{BARE}\nhelm install samara deploy/chart -n samara --create-namespace"),
    "docs/reference/events.md": Before(("shop",), _DATABASE, "samara run\nkubectl get secret orders-database -n shop"),
    "docs/reference/kubectl-accurate.md": Before((), _TREES, _INHERITED),
    "examples/resource-distribution/README.md": Before(commands="samara run"),
    "examples/secret-copy/README.md": Before(commands="samara run"),
    "examples/sync-to/README.md": Before(commands="samara run"),
}
