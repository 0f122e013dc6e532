"""`kubectl accurate`: the kubectl plugin for trees and templates of namespaces."""
