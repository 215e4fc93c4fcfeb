# SPDX-License-Identifier: Apache-2.0
"""One module for each service of the .proto files, one function for each rpc."""
