"""What commands share: options, how a study is measured, what is printed, how a failure is reported."""
