"""The tasks of a DAG: the run's beginning and end, a stage as a process or a pod, an approval."""
