"""The REST interface of the contract, version 1: a module a resource."""
