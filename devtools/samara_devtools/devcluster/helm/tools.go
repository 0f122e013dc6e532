//go:build tools

// Package tools names the program that renders and checks the chart, so that go.mod pins it.
package tools

import _ "helm.sh/helm/v4/cmd/helm"
