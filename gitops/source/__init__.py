"""The repository: a bare Git mirror (pygit2), trees to compile from, and the status branch to report to.

Everything here is synchronous and belongs to one thread; `worker.SourceWorker` is that thread for asyncio code. Nothing
is ever checked out: files are read from Git objects, and commits are written as objects.
"""
