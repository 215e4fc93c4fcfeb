# SPDX-License-Identifier: Apache-2.0
"""The requests and answers of the API, each described once: every interface and the client use these classes."""
