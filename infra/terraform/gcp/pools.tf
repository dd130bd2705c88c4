# Node pools are read from the file that recipes, the planner and the engines use: there is no second list to keep.
locals {
  pools = yamldecode(file("${path.module}/../../pools.yaml"))
  label = "posttrain.dev/pool"

  # Several pools may share nodes: a job of two nodes and a job of one select the same label.
  selecting = { for name, pool in local.pools : name => pool if lookup(pool, "node_selector", null) != null }
  by_label  = { for name, pool in local.selecting : pool.node_selector[local.label] => merge(pool, { name = name })... }

  node_pools = {
    for label, pools in local.by_label : label => {
      gpus       = max([for pool in pools : lookup(pool, "gpus", 0)]...)
      spot       = anytrue([for pool in pools : lookup(pool, "spot", false)])
      largest    = max([for pool in pools : lookup(pool, "nodes", 1)]...)
      taint_keys = distinct(flatten([for pool in pools : [for one in lookup(pool, "tolerations", []) : one.key]]))
    }
  }
}
