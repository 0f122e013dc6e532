"""The program `kubectl-accurate`: namespace trees and templates by hand."""
